"""What one wire dialect must know: how to say a request and how to read the answer; no input or output of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jaato.abc.provider import Chunk, ModelRequest
from jaato.errors import ProviderError


class Decoder(Protocol):
    """Reads one streamed answer. Raises `ProviderError`s for what the server says in the stream."""

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks that one server-sent event (its `event:` name or "", its joined `data:`) brings."""
        ...

    def end(self) -> Sequence[Chunk]:
        """The stream has ended: the final `Reply`; raises `ConnectionFault` when it ended too early."""
        ...


class Dialect(Protocol):
    """One way of speaking to a model over HTTP."""

    name: str

    def path(self, request: ModelRequest) -> str:
        """The URL path (and query) below the base URL."""
        ...

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The headers that carry the key and the version."""
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """The request body; bytes of what was encoded before are taken from `request.encoded`."""
        ...

    def decoder(self, request: ModelRequest) -> Decoder: ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The typed error for an answer that is no success."""
        ...
