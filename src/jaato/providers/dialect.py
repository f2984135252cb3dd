"""What a wire dialect implements (encode a request, decode a stream) and is given: the encoded conversation, counts of tokens."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from jaato.abc.provider import Chunk, ModelRequest
from jaato.errors import ProviderError
from jaato.protocol.messages import Usage
from jaato.providers.turns import Conversation, WireTurn


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


ReadBlob = Callable[[str], bytes]
EncodeTurn = Callable[[WireTurn, ReadBlob], bytes]
"""How a dialect says one turn: the inside of a JSON array, empty when there is nothing to say."""


class EncodedConversation:
    """The turns of one conversation in a dialect's bytes: completed turns are kept, the last one is encoded again."""

    def __init__(self, turns: Conversation, say: EncodeTurn) -> None:
        self.turns = turns
        self._say = say
        self._ended: list[bytes] = []

    def said(self, read_blob: ReadBlob) -> bytes:
        """The whole conversation as the inside of a JSON array."""
        self._ended += [said for turn in self.turns.take() if (said := self._say(turn, read_blob))]
        tail = [said for turn in self.turns.tail() if (said := self._say(turn, read_blob))]
        return b",".join([*self._ended, *tail])


def encode_conversation(
    request: ModelRequest, place: Hashable, turns: Callable[[], Conversation], say: EncodeTurn
) -> bytes:
    """The messages of a request as the inside of a JSON array; what was encoded before stays as it was.

    `place` names the dialect and all that changes its bytes; `turns` makes the follower of a new conversation.
    """
    kept = request.encoded.get(place)
    if not (isinstance(kept, EncodedConversation) and kept.turns.follow(request.messages)):
        kept = request.encoded[place] = EncodedConversation(turns(), say)
        kept.turns.follow(request.messages)
    return kept.said(request.read_blob)


MOST = 2**53
"""No answer has more tokens; a larger number is none, and could not be stored."""


def token_count(value: Any, *path: str) -> int:
    """The count below these keys; 0 for what is missing, negative, no number or beyond `MOST`."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value <= MOST else 0


def openai_usage(told: Any, given: str, made: str) -> Usage | None:
    """The tokens of an OpenAI interface, which names them `given` and `made`, and their details after them."""
    if not isinstance(told, dict):
        return None
    return Usage(
        input_tokens=token_count(told, given),
        output_tokens=token_count(told, made),
        cached_input_tokens=token_count(told, f"{given}_details", "cached_tokens")
        or token_count(told, "prompt_cache_hit_tokens"),
        cache_write_tokens=token_count(told, f"{given}_details", "cache_write_tokens"),
        reasoning_tokens=token_count(told, f"{made}_details", "reasoning_tokens"),
    )
