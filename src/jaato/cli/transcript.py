"""A stored session for reading and for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from jaato.abc.store import Damaged, Store
from jaato.agent.masking import masked_log
from jaato.cli.call_lines import call_text
from jaato.cli.narrate import usage_text
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    Event,
    MessageModel,
    MessageUser,
    SessionCreated,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.messages import Media, Refusal, Text, Thinking, ToolResult
from jaato.tools.redaction.redactor import Redactor

RESULT_CHARS = 400


def write_events(store: Store, session_id: str, file: IO[bytes], secrets: Redactor) -> int:
    """Every event as one line of JSON, a damaged one as `{"damaged": …}`; gives their number."""
    count = 0
    for event in masked_log(store.read(session_id), secrets):
        file.write(line_of(event) + b"\n")
        count += 1
    return count


def line_of(event: Event | Damaged) -> bytes:
    """One event as JSON."""
    if isinstance(event, Damaged):
        return json.dumps(
            {"damaged": event.reason, "session_id": event.session_id, "seq": event.seq}
        ).encode()
    return encode(event)


def transcript(store: Store, session_id: str, secrets: Redactor, *, full: bool = False) -> Iterator[str]:
    """The conversation in lines for people, those of subagents with their name in front; with `full` whole results and
    thinking."""
    arguments: dict[str, dict[str, object]] = {}
    names: dict[str, str] = {}
    for event in masked_log(store.read(session_id), secrets):
        if isinstance(event, Damaged):
            yield f"[event {event.seq} is damaged: {event.reason}]"
            continue
        if isinstance(event, AgentCreated) and event.parent_agent_id is not None:
            above = names.get(event.parent_agent_id)
            names[event.agent_id] = f"{above}/{event.name}" if above else event.name
        front = f"  [{names[event.agent_id]}] " if event.agent_id in names else ""
        for line in told(event, arguments, full=full):
            yield f"{front}{line}" if line else line


def told(event: Event, arguments: dict[str, dict[str, object]], *, full: bool) -> Iterator[str]:
    """The lines of one event; `arguments` are those of the calls that have no result yet."""
    match event:
        case SessionCreated():
            yield f"session {event.session_id} {event.name or ''}".rstrip()
            yield f"begun {event.timestamp} in {event.workspace}"
        case AgentCreated():
            yield f"agent {event.name}: {event.provider} {event.model}"
        case MessageUser():
            yield ""
            yield from labelled(event.message.source, user_text(event))
        case MessageModel():
            yield ""
            yield from model_lines(event, full=full)
            arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
        case ToolCallEnd():
            yield f"> {call_text(event.tool, arguments.pop(event.call_id, {}), 160)}"
            yield from result_text(event.result, full=full)
        case TurnCompleted():
            yield f"-- {ending_line(event)}"
        case AgentCompleted() if event.reason != "completed":
            yield f"-- {event.reason}{f': {event.summary}' if event.summary else ''}"


def user_text(event: MessageUser) -> str:
    """What the user said, with attachments named."""
    media = [f"[{part.name or part.mime_type}]" for part in event.message.parts if isinstance(part, Media)]
    return "\n".join([event.message.words, *media]).strip()


def model_lines(event: MessageModel, *, full: bool) -> Iterator[str]:
    """What the model said."""
    for part in event.message.parts:
        match part:
            case Text():
                yield from labelled("agent", part.text)
            case Refusal():
                yield from labelled("refusal", part.text)
            case Thinking() if full and part.text:
                yield from labelled("thinking", part.text)


def labelled(who: str, text: str) -> Iterator[str]:
    """Text with who said it in front of its first line."""
    first, *rest = text.split("\n")
    yield f"{who}: {first}"
    yield from rest


def result_text(result: ToolResult, *, full: bool) -> Iterator[str]:
    """What a call gave back, shortened unless all of it is wanted."""
    text = "\n".join([part.text for part in result.content if isinstance(part, Text)])
    if not result.ok:
        text = f"failed: {result.error.message}" if result.error else "failed"
    if not full and len(text) > RESULT_CHARS:
        text = f"{text[:RESULT_CHARS]}… ({len(text) - RESULT_CHARS} more characters; --full shows them)"
    for line in text.splitlines():
        yield f"    {line}"


def ending_line(turn: TurnCompleted) -> str:
    """How a turn ended and what it took."""
    ended = "" if turn.reason == "stop" else f"{turn.reason}; "
    why = f" ({turn.error.message})" if turn.error else ""
    return f"{ended}{usage_text(turn.usage)}, {turn.duration_s:.1f} s{why}"
