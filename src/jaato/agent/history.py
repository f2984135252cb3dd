"""Message history from outside: checked, and written as the events of a log that begins with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.codec import decode_message, encode
from jaato.protocol.events import Event, MessageModel, MessageUser, ToolCallEnd, TurnCompleted
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, Message, Problem, Text, ToolCall, ToolResult, Usage
from jaato.protocol.usage import get_history_time
from jaato.typed_decoding import convert

History = Sequence[Message | Mapping[str, Any]] | str | bytes
"""Messages, the same as plain data (`{"role": "user", "content": "…"}` for text), or the JSON text of a list of them."""
FORM = "A message has a role (user, assistant or tool) and parts, or its text as content"


def parse_history(given: History) -> tuple[Message, ...]:
    """The messages, each with an id. Images become a note: their bytes belong to another session. Raises `ConfigError` naming
    the message that is wrong."""
    entries: Any = given
    if isinstance(given, str | bytes):
        try:
            entries = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"history is text that is no JSON: {error}.") from None
    if isinstance(entries, Mapping) or not isinstance(entries, Iterable):
        raise ConfigError(f"history is a list of messages, not {type(entries).__name__}.")
    messages: list[Message] = []
    seen: set[str] = set()
    asked: dict[str, str] = {}
    for index, entry in enumerate(entries):
        try:
            message = without_media(to_message(entry))
            check_calls(message, asked)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"history[{index}]: {error}. {FORM}.") from None
        if not message.id or message.id in seen:
            message = msgspec.structs.replace(message, id=new_id("m"))
        seen.add(message.id)
        messages.append(message)
    return tuple(messages)


def to_message(entry: Any) -> Message:
    """One entry as a message, as the log will give it back. Raises `ValidationError`, and for what is not JSON `TypeError`,
    `ValueError` (also for a lone surrogate) or `RecursionError`."""
    if isinstance(entry, Mapping) and "parts" not in entry and isinstance(entry.get("content"), str):
        entry = {"role": entry.get("role"), "parts": [{"type": "text", "text": entry["content"]}]}
    if not isinstance(entry, Message):
        entry = convert(entry, Message)
    return decode_message(encode(entry))


def check_calls(message: Message, asked: dict[str, str]) -> None:
    """Check that only a model calls, and that each result answers a call in `asked`, of the newest reply. Raises ValueError."""
    if message.role != "tool":
        asked.clear()
    for part in message.parts:
        match part:
            case ToolCall() if message.role == "assistant":
                if part.call_id in asked:
                    raise ValueError(f"two calls have the id {part.call_id!r}")
                asked[part.call_id] = part.name
            case ToolResult() if message.role == "tool":
                if asked.pop(part.call_id, None) is None:
                    raise ValueError(f"no call before it has the id {part.call_id!r}, which it answers")
            case ToolCall() | ToolResult():
                raise ValueError(f"a message of the role {message.role} has no {type(part).__name__}")
            case _ if message.role == "tool":
                raise ValueError("a message of the role tool has results and nothing else")


def without_media(message: Message) -> Message:
    """The message with a note in place of each image or document."""
    parts = [
        note_of(part)
        if isinstance(part, Media)
        else msgspec.structs.replace(part, content=[note_of(item) for item in part.content])
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=parts)


def note_of(item: Text | Media) -> Text:
    """A text as it is; for an image or document that it is not there."""
    return (
        item
        if isinstance(item, Text)
        else Text(f"[{item.name or item.mime_type} is not part of this history]")
    )


def history_events(
    messages: Iterable[Message], next_head: Callable[[], dict[str, Any]], created_at: str
) -> Iterator[Event]:
    """The events that make a log of these messages: turns that ended before the session was created at this time, and are not
    counted as its usage. `next_head` gives the common fields of the next event."""
    timestamp = get_history_time(created_at)

    def head() -> dict[str, Any]:
        return next_head() | {"timestamp": timestamp}

    turn_id, calls, made = "", 0, 0
    unanswered: dict[str, ToolCall] = {}
    previous = ""
    for message in messages:
        if message.role != "tool":
            yield from lost_results(unanswered, head)
        if message.role == "user" and previous == "assistant":
            yield make_turn_end(turn_id, calls, made, head)
            turn_id, calls, made = "", 0, 0
        turn_id = turn_id or new_id("t")
        match message.role:
            case "user":
                yield MessageUser(**head(), message=message, turn_id=turn_id)
            case "assistant":
                unanswered = {call.call_id: call for call in message.function_calls}
                calls, made = calls + 1, made + len(unanswered)
                reason: Any = "tool_calls" if unanswered else "stop"
                yield MessageModel(**head(), message=message, turn_id=turn_id, finish_reason=reason)
            case "tool":
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        unanswered.pop(part.call_id, None)
                        yield call_end(part, head)
        previous = message.role
    if turn_id:
        yield from lost_results(unanswered, head)
        yield make_turn_end(turn_id, calls, made, head)


def lost_results(unanswered: dict[str, ToolCall], head: Callable[[], dict[str, Any]]) -> Iterator[Event]:
    """An error as the result of each call that the history does not answer."""
    for call in unanswered.values():
        problem = Problem(code="lost", message="The history has no result of this call.")
        yield call_end(ToolResult(call.call_id, call.name, False, error=problem), head)
    unanswered.clear()


def call_end(result: ToolResult, head: Callable[[], dict[str, Any]]) -> ToolCallEnd:
    """The end of a call with this result."""
    return ToolCallEnd(**head(), call_id=result.call_id, tool=result.name, result=result, duration_s=0.0)


def make_turn_end(
    turn_id: str, model_calls: int, tool_calls: int, head: Callable[[], dict[str, Any]]
) -> TurnCompleted:
    """The end of a turn that cost nothing here."""
    return TurnCompleted(
        **head(),
        turn_id=turn_id,
        reason="stop",
        usage=Usage(),
        model_calls=model_calls,
        tool_calls=tool_calls,
        duration_s=0.0,
        cost_usd=0.0,
    )
