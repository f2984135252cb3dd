"""A provider over HTTP: one streaming POST, whatever the dialect, with every fault typed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from jaato.abc.provider import Chunk, ModelRequest, Reply
from jaato.errors import ConfigError, ConnectionFault, MalformedReply, ProviderError
from jaato.protocol.specs import ModelInfo
from jaato.providers import faults
from jaato.providers.dialect import Decoder, Dialect
from jaato.providers.route import certificates, proxy_for, shown, split_url
from jaato.providers.sse import MAX_EVENT_BYTES, EventParser

if TYPE_CHECKING:
    import httpx2

Key = str | Callable[[], Awaitable[str]] | None
"""A key, or something that gives a fresh one each time (a token that expires), or None where none is needed."""

MAX_ERROR_BYTES = 64 * 1024
MAX_BODY_BYTES = MAX_EVENT_BYTES
STREAM_TYPES = ("text/event-stream", "text/plain", "application/octet-stream", "")
"""Content types under which servers send a stream of events; the last ones stand for servers that name none."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait: for a connection, for the first sign of an answer, and between two pieces of it."""

    connect_s: float = 15.0
    first_byte_s: float = 600.0
    idle_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Listing:
    """Where a provider lists its models: a path below the base URL, or from the root of its host.

    `read` turns one answer into models and the path of the next page, if there is one; it may raise msgspec's
    `DecodeError` for an answer of another shape.
    """

    path: str
    read: Callable[[bytes], tuple[list[ModelInfo], str | None]]
    from_root: bool = False


class HttpProvider:
    """Speaks one dialect with one host. Nothing is sent before it is used, and nothing is retried.

    A decoder is fed every event (for a plain JSON answer: the whole body, as one event named ""); the `Reply` it
    gives, from `feed` or from `end`, ends the stream. `describe` says what is known of a model.
    """

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        *,
        base_url: str,
        describe: Callable[[str], ModelInfo],
        key: Key = None,
        listing: Listing | None = None,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts = Timeouts(),
        headers: Mapping[str, str] | None = None,
        remedy: str = "",
    ) -> None:
        self.name = name
        self.dialect = dialect
        parts = split_url(base_url, f"The base URL of {name}")
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._base = self._root + parts.path.rstrip("/")
        self._query = parts.query
        self.base_url = shown(base_url)
        self._key = checked_key(key, name)
        self._describe = describe
        self._listing = listing
        self._environ = environ or {}
        self._timeouts = timeouts
        self._headers = dict(headers or {})
        self._remedy = remedy
        self._proxy = proxy_for(self._base, self._environ)
        self._transport: httpx2.AsyncHTTPTransport | None = None

    def __repr__(self) -> str:
        return f"HttpProvider({self.name!r}, {self.dialect.name!r}, {self.base_url!r})"

    def model_info(self, model: str) -> ModelInfo:
        """What is known of a model without asking anybody."""
        return self._describe(model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The model's answer, chunk by chunk, and the `Reply` last; raises `ProviderError`s."""
        raise ConfigError("not yet")
        yield

    async def models(self) -> list[ModelInfo]:
        """The models the provider offers to this key; raises `ProviderError`s."""
        return []

    async def aclose(self) -> None:
        """Close every connection."""


def checked_key(key: Key, name: str) -> Key:
    """The key without surrounding space; raises `ConfigError` when it cannot travel in a header."""
    if not isinstance(key, str):
        return key
    key = key.strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(f"The key for {name} holds characters no key has (a line break, a quote?); set it anew.")
    return key or None
