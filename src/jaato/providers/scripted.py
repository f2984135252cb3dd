"""A provider that replays a script or a recorded session: for tests, demos and replay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jaato import errors
from jaato.abc.provider import Chunk, ModelRequest, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConfigError, ConnectionFault, ProviderError
from jaato.protocol.events import Event, MessageModel
from jaato.protocol.ids import new_id
from jaato.protocol.messages import FinishReason, Message, Part, Text, Thinking, ToolCall, Usage
from jaato.protocol.specs import ModelInfo
from jaato.typed_decoding import decode_json


class ScriptedCall(msgspec.Struct, frozen=True):
    """A call the script makes."""

    name: str
    arguments: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply: thinking, text (in `chunks` pieces) and calls; or an error after them.

    `error` names a provider error by its code (`rate_limited`, `provider_unreachable`, …). A step with a `purpose` answers
    only questions outside the conversation: `gc`, for the summary of a compaction.
    """

    text: str = ""
    thinking: str = ""
    calls: list[ScriptedCall] = []
    chunks: int = 1
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    error: str | None = None
    retry_after_s: float | None = None
    purpose: str = ""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script with what is known of its model: limits in tokens, prices in US dollars per million tokens."""

    steps: list[Step]
    context_limit: int = 128_000
    output_limit: int | None = None
    price_input: float | None = None
    price_cached_input: float | None = None
    price_output: float | None = None

    def info(self, path: Path) -> ModelInfo:
        """What is known of the model."""
        return ModelInfo(
            id=str(path),
            provider="scripted",
            context_limit=self.context_limit,
            output_limit=self.output_limit,
            price_input=self.price_input,
            price_cached_input=self.price_cached_input,
            price_output=self.price_output,
        )


Answer = Step | Callable[[ModelRequest], Step]


class ScriptedProvider:
    """Answers with the steps of a script, in order; a step may be a function of the request.

    A conversation that already has replies (a resumed one) continues after as many steps. A question outside the
    conversation is answered by the steps with its `purpose`, in order, the last one again and again; where there is none,
    by the next step if that is a function, else by an error, and no step is used up. `requests` keeps what was asked, when
    `keep_requests` is set.
    """

    name = "scripted"

    def __init__(
        self, script: Sequence[Answer], *, keep_requests: bool = False, info: ModelInfo | None = None
    ) -> None:
        asides = [step for step in script if isinstance(step, Step) and step.purpose]
        self._script = [step for step in script if step not in asides]
        self._asides = asides
        self._next: int | None = None
        self._info = info
        self._keep = keep_requests
        self.requests: list[ModelRequest] = []

    @classmethod
    def from_file(cls, path: Path) -> ScriptedProvider:
        """A script from a JSON file: a list of steps, or a `Script`. Raises `ConfigError` naming the file and what is wrong."""
        try:
            script = decode_json(path.read_bytes(), list[Step] | Script)
            return cls(script.steps, info=script.info(path)) if isinstance(script, Script) else cls(script)
        except OSError as error:
            raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"The script {path} is not a list of steps: {error}.") from None

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> ScriptedProvider:
        """The replies of a recorded session, to be played again."""
        return cls([step_of(event) for event in events if isinstance(event, MessageModel)])

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Play the next step."""
        if self._keep:
            self.requests.append(request)
        step = self._answer(request)
        if step.thinking:
            yield ThinkingDelta(step.thinking)
        for piece in pieces(step.text, step.chunks):
            yield TextDelta(piece)
        if step.error is not None:
            raise error_of(step)
        yield reply_of(step)

    def _answer(self, request: ModelRequest) -> Step:
        """The step that answers a request. Raises `ProviderError` when there is none."""
        if request.purpose and (mine := [step for step in self._asides if step.purpose == request.purpose]):
            if len(mine) > 1:
                self._asides.remove(mine[0])
            return mine[0]
        position = self._next
        if position is None:
            position = max(request.replies, sum(one.role == "assistant" for one in request.messages))
        if position >= len(self._script):
            raise ProviderError(f"The script is over after {len(self._script)} replies.", provider=self.name)
        answer = self._script[position]
        if request.purpose and isinstance(answer, Step):
            raise ProviderError(f"The script has no answer for {request.purpose}.", provider=self.name)
        self._next = position if request.purpose else position + 1
        return answer if isinstance(answer, Step) else answer(request)

    def model_info(self, model: str) -> ModelInfo:
        """The model information that the script gives."""
        return self._info or ModelInfo(id=model, provider=self.name, context_limit=128_000)

    async def models(self) -> list[ModelInfo]:
        """The one model there is."""
        return [self.model_info("script")]

    async def aclose(self) -> None:
        """Nothing is open."""


def pieces(text: str, count: int) -> list[str]:
    """The text in about `count` pieces."""
    if not text:
        return []
    size = max(1, -(-len(text) // max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def reply_of(step: Step) -> Reply:
    """The whole reply of a step."""
    parts: list[Part] = [Thinking(step.thinking)] if step.thinking else []
    parts += [Text(step.text)] if step.text else []
    parts += [ToolCall(new_id("c"), call.name, call.arguments) for call in step.calls]
    reason = step.finish_reason or ("tool_calls" if step.calls else "stop")
    return Reply(Message("assistant", parts), reason, step.usage)


def step_of(event: MessageModel) -> Step:
    """A recorded reply as a step."""
    thinking = "".join(part.text for part in event.message.parts if isinstance(part, Thinking))
    calls = [ScriptedCall(call.name, call.arguments) for call in event.message.function_calls]
    return Step(event.message.text, thinking, calls, usage=event.usage, finish_reason=event.finish_reason)


def error_of(step: Step) -> ProviderError:
    """The error a step asks for."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ProviderError)
    ]
    for kind in kinds:
        if kind.code == step.error:
            text = f"The script says: {step.error}."
            return kind(text, provider="scripted", retry_after_s=step.retry_after_s)
    return ConnectionFault(f"The script says: {step.error}.", provider="scripted")
