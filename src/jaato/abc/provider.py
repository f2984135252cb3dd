"""The interface of a model provider: one stateless, streaming call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from jaato.protocol.messages import FinishReason, Message, Usage
from jaato.protocol.specs import ModelInfo, ModelSettings, ToolSpec


def no_blob(digest: str) -> bytes:
    """The blob reader of a conversation without media."""
    raise KeyError(digest)


class ModelRequest(Struct, frozen=True):
    """One call of a model: the whole conversation, the declared tools in their order, and how to sample.

    `encoded` belongs to the conversation and outlives the request: a dialect keeps there the bytes of what it has
    encoded before, so that a turn costs what is new. `read_blob` gives the bytes of a media part by its digest.
    `replies` counts the messages the model has written in the conversation, those no longer in it included; `purpose` is
    empty for the conversation, and names a question outside of it (`gc`).
    """

    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    settings: ModelSettings = ModelSettings()
    conversation_id: str = ""
    read_blob: Callable[[str], bytes] = no_blob
    encoded: dict[Any, Any] = field(default_factory=dict)
    replies: int = 0
    purpose: str = ""


class TextDelta(Struct, frozen=True):
    """A piece of text of the model."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """Something the model has just thought."""

    text: str


class CallDelta(Struct, frozen=True):
    """A call is being written; shown, never run: the whole reply carries the call to run."""

    index: int
    name: str
    arguments: str


class PromptProgress(Struct, frozen=True):
    """How many of the prompt's tokens the model has read, before its reply begins. Only of models that take long to."""

    done: int
    total: int


class Reply(Struct, frozen=True):
    """The end of a stream: the whole message, why it ended and what it cost. Always the last chunk, exactly once."""

    message: Message
    finish_reason: FinishReason
    usage: Usage | None = None


Chunk = PromptProgress | TextDelta | ThinkingDelta | CallDelta | Reply


@runtime_checkable
class Provider(Protocol):
    """Something that answers with a model. Raises `ProviderError`s and nothing else of its own.

    `stream` yields chunks and ends with one `Reply`; a stream that stops before it has raised `ConnectionFault`.
    Cancelling the task that reads the stream closes the connection.
    """

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]: ...

    def model_info(self, model: str) -> ModelInfo: ...

    async def models(self) -> list[ModelInfo]: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class FetchesLimit(Protocol):
    """A provider whose server can be asked how many tokens fit into a model's context."""

    async def fetch_context_limit(self, model: str) -> int | None:
        """What the server says, asked once for each model; None where it does not say. Raises `ProviderError`."""
        ...
