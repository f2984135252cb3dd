"""What a wire dialect implements: encoding a request and decoding a stream; with the encoded conversation and token counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from jaato.abc.provider import Chunk, ModelRequest
from jaato.protocol.messages import Usage
from jaato.providers.turns import Conversation, WireTurn


class Decoder(Protocol):
    """Reads one streamed answer. Raises `ProviderError`s for errors in the stream."""

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks that one server-sent event (its `event:` name or "", its joined `data:`) brings."""
        ...

    def end(self) -> Sequence[Chunk]:
        """The stream has ended: the final `Reply`; raises `ConnectionFault` when it ended too early."""
        ...


class Dialect(Protocol):
    """The wire format of one model API over HTTP."""

    name: str
    provider: str
    """The name that messages and errors carry."""

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


ReadBlob = Callable[[str], bytes]
EncodeTurn = Callable[[WireTurn, ReadBlob], bytes]
"""How a dialect encodes one turn: the inside of a JSON array, empty where nothing is to be sent."""


class EncodedConversation:
    """The turns of one conversation in a dialect's bytes: completed turns are kept, the last one is encoded again."""

    def __init__(self, turns: Conversation, encode_turn: EncodeTurn) -> None:
        self.turns = turns
        self._encode_turn = encode_turn
        self._ended: list[bytes] = []

    def encode(self, read_blob: ReadBlob) -> bytes:
        """The whole conversation as the inside of a JSON array."""
        self._ended += [piece for turn in self.turns.take() if (piece := self._encode_turn(turn, read_blob))]
        tail = [piece for turn in self.turns.tail() if (piece := self._encode_turn(turn, read_blob))]
        return b",".join([*self._ended, *tail])


def encode_conversation(
    request: ModelRequest, place: Hashable, turns: Callable[[], Conversation], encode_turn: EncodeTurn
) -> bytes:
    """The messages of a request as the inside of a JSON array; what was encoded before stays as it was.

    `place` names the dialect and all that changes its bytes; `turns` makes the `Conversation` of a new one.
    """
    kept = request.encoded.get(place)
    if not (isinstance(kept, EncodedConversation) and kept.turns.follow(request.messages)):
        kept = request.encoded[place] = EncodedConversation(turns(), encode_turn)
        kept.turns.follow(request.messages)
    return kept.encode(request.read_blob)


MOST = 2**53
"""No answer has more tokens; a larger number is none, and could not be stored."""


def token_count(value: Any, *path: str) -> int:
    """The count below these keys; 0 for what is missing, negative, no number or beyond `MOST`."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value <= MOST else 0


def openai_usage(counts: Any, input_key: str, output_key: str) -> Usage | None:
    """The tokens of an OpenAI interface, which names them `input_key` and `output_key`, and their details after them."""
    if not isinstance(counts, dict):
        return None
    return Usage(
        input_tokens=token_count(counts, input_key),
        output_tokens=token_count(counts, output_key),
        cached_input_tokens=token_count(counts, f"{input_key}_details", "cached_tokens")
        or token_count(counts, "prompt_cache_hit_tokens"),
        cache_write_tokens=token_count(counts, f"{input_key}_details", "cache_write_tokens"),
        reasoning_tokens=token_count(counts, f"{output_key}_details", "reasoning_tokens"),
    )
