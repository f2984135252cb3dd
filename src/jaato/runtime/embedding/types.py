"""The documented names of messages and their parts: they build and recognise those of `protocol.messages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from jaato.errors import ConfigError, ToolError
from jaato.protocol import messages
from jaato.protocol.codec import encode
from jaato.protocol.ids import new_id
from jaato.protocol.messages import AnyPart, Message, Text, ToolCall, Usage
from jaato.protocol.specs import ModelSettings
from jaato.tools.call import Call, Outcome, problem_of, result_of
from jaato.typed_decoding import decode_json

if TYPE_CHECKING:

    class Role:
        """To a type checker the members are the very words a message's `role` is declared to be."""

        USER: Literal["user"]
        ASSISTANT: Literal["assistant"]
        MODEL: Literal["assistant"]
        TOOL: Literal["tool"]

else:

    class Role(StrEnum):
        """The role of a message."""

        USER = "user"
        ASSISTANT = "assistant"
        MODEL = "assistant"
        TOOL = "tool"


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"
    UNKNOWN = "unknown"


class SourceType(StrEnum):
    """Who a queued message comes from; a child's waits until the others' are delivered."""

    PARENT = "parent"
    USER = "user"
    SYSTEM = "system"
    CHILD = "child"


class Documented(type):
    """The class of a documented name: what it builds and recognises is `made`."""

    made: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.made)


class FunctionCall(metaclass=Documented):
    """A call the model asks for: `id`, `name`, `args`."""

    made = ToolCall

    def __new__(cls, id: str, name: str, args: Mapping[str, Any] | None = None) -> ToolCall:  # type: ignore[misc]  # noqa: A002  # documented
        return ToolCall(id or new_id("c"), name, dict(args or {}))


class ToolResult(metaclass=Documented):
    """What a call gave back, for the model: `result` is any value, with `is_error` the message."""

    made = messages.ToolResult

    def __new__(  # type: ignore[misc]  # it builds the one kind of result there is
        cls, call_id: str, name: str, result: Any = None, is_error: bool = False
    ) -> messages.ToolResult:
        call = Call(call_id, name, {})
        if not is_error:
            return result_of(call, Outcome(True, result))
        message = result.get("error", result) if isinstance(result, dict) else result
        return result_of(call, Outcome(False, problem=problem_of(ToolError(str(message)))))


class Part(metaclass=Documented):
    """One part of a message: `text`, a `function_call` or a `function_response`."""

    made = AnyPart

    @overload
    def __new__(cls, text: str) -> Text: ...  # type: ignore[misc]
    @overload
    def __new__(cls, *, function_call: ToolCall) -> ToolCall: ...  # type: ignore[misc]
    @overload
    def __new__(cls, *, function_response: messages.ToolResult) -> messages.ToolResult: ...  # type: ignore[misc]
    def __new__(  # type: ignore[misc]  # it builds the one kind of part there is
        cls,
        text: str | None = None,
        *,
        function_call: ToolCall | None = None,
        function_response: messages.ToolResult | None = None,
    ) -> Text | ToolCall | messages.ToolResult:
        given = [part for part in (function_call, function_response) if part is not None]
        if text is not None:
            given.insert(0, Text(text))  # type: ignore[arg-type]  # all three are parts
        if len(given) != 1:
            raise TypeError("A Part takes one of text, function_call and function_response.")
        return given[0]


@dataclass(frozen=True)
class ProviderResponse:
    """A reply of the model; `message` is all of it, with what it thought. `usage` is None when unknown."""

    text: str = ""
    function_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    message: Message | None = None


@dataclass(frozen=True)
class ProviderConfig:
    """How a provider is reached: a Google Cloud `project` and `location` mean Gemini on Vertex AI.

    What is not given comes from the environment and the settings, as for every other session.
    """

    project: str | None = None
    location: str | None = None
    api_key: str | None = None
    base_url: str | None = None
    settings: ModelSettings = ModelSettings()
    environ: Mapping[str, str] | None = None


def serialize_history(history: Sequence[Message]) -> str:
    """Messages as text that `deserialize_history` reads."""
    return encode(list(history)).decode()


def deserialize_history(data: str) -> list[Message]:
    """Messages from `serialize_history`. Raises `ConfigError` for anything else."""
    try:
        return decode_json(data, list[Message])
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ConfigError(f"That is no serialized history: {error}.") from None
