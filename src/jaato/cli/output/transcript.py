"""Render a session as text or JSON lines: a stored log, and the state of one that is opened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from jaato.abc.store import Damaged, Store
from jaato.agent.event_redaction import redact_log
from jaato.cli.output.printer import usage_text
from jaato.cli.output.renderers import call_text
from jaato.cli.output.terminal import Screen, one_line
from jaato.client.state import unfinished
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    Event,
    GcCompleted,
    MessageModel,
    MessageUser,
    SessionCreated,
    SessionInfo,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.messages import Media, Refusal, Text, Thinking, ToolResult
from jaato.protocol.specs import FileChange, Plan
from jaato.tools.redaction.redactor import Redactor

RESULT_CHARS = 400


def write_events(store: Store, session_id: str, file: IO[bytes], secrets: Redactor) -> int:
    """Every event as one line of JSON, a damaged one as `{"damaged": …}`; gives their number."""
    count = 0
    for event in redact_log(store.read(session_id), secrets):
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
    for event in redact_log(store.read(session_id), secrets):
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


SHOWN_ENTRIES = 20
SIGNS = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-"}


def show(screen: Screen, state: State, info: SessionInfo) -> None:
    """Show a session as it is now."""
    name = f" {state.name}" if state.name else ""
    screen.note(
        f"session {state.session_id}{name} in {state.workspace}, {state.provider} {state.model}", "dim"
    )
    entries = [entry for entry in state.entries if entry.agent_id == state.root_agent_id]
    earlier = state.earlier + max(0, len(entries) - SHOWN_ENTRIES)
    if earlier:
        screen.note(f"… {earlier} entries before these: jaato sessions show {state.session_id}", "dim")
    asked: dict[str, dict[str, object]] = {}
    for entry in entries:
        if isinstance(entry, MessageModel):
            asked |= {call.call_id: call.arguments for call in entry.message.function_calls}
    for entry in entries[-SHOWN_ENTRIES:]:
        for line in entry_lines(entry, asked, screen.width):
            screen.note(line)
    for line in work_lines(state, info, screen.width):
        screen.note(line, "cyan")
    plan = state.agents[state.root_agent_id].plans.get(root_plan(state)) if root_plan(state) else None
    if plan is not None and plan.status == "active":
        for line in plan_lines(plan):
            screen.note(line, "blue")


def entry_lines(entry: Event, asked: dict[str, dict[str, object]], width: int) -> Iterator[str]:
    """One entry of the conversation."""
    match entry:
        case MessageUser():
            yield from labelled(entry.message.source, user_text(entry))
        case MessageModel():
            text = "".join(part.text for part in entry.message.parts if isinstance(part, Text))
            if text:
                yield from labelled("agent", text)
        case ToolCallEnd():
            yield f"> {call_text(entry.tool, asked.get(entry.call_id, {}), width - 2)}"
            if not entry.result.ok:
                problem = entry.result.error.message if entry.result.error else "failed"
                yield f"x {one_line(f'{entry.tool}: {problem}', width - 2)}"
        case TurnCompleted():
            yield f"-- {ending_line(entry)}"
        case GcCompleted():
            yield "-- room was made in the context"


def work_lines(state: State, info: SessionInfo, width: int) -> Iterator[str]:
    """What goes on, or was cut off."""
    cut_off = unfinished(state) and not info.at_work
    for call in state.calls.values():
        line = call_text(call.tool, call.arguments, width - 20)
        yield f"> {line} (interrupted)" if cut_off else f"> {line} (runs)"
        for printed in call.output.splitlines()[-5:]:
            yield f"    {one_line(printed, width - 4)}"
    for task in state.tasks.values():
        yield f"background task {task.task_id} ({task.tool}): {task.status}"
    if cut_off:
        yield "The last work was cut off, or works in another process; /continue goes on with it, a message too."


def root_plan(state: State) -> str:
    """The id of the plan of the agent that is spoken to."""
    agent = state.agents.get(state.root_agent_id)
    return (agent.plan_id or "") if agent is not None else ""


def plan_lines(plan: Plan) -> Iterator[str]:
    """A plan, step by step."""
    yield f"{plan.title} ({plan.status})"
    for step in plan.steps:
        yield f"  [{SIGNS.get(step.status, ' ')}] {step.description}"


def file_text(file: FileChange) -> str:
    """A changed file, as `/files` lists it."""
    folder = "/" if file.directory else ""
    lines = [f"{sign}{count}" for sign, count in (("+", file.added), ("-", file.removed)) if count]
    return f"{file.change:<9} {file.path}{folder} {' '.join(lines)}".rstrip()


def show_opening(screen: Screen, state: State, before: int) -> None:
    """What is said of a session that was begun, or goes on after its event `before`."""
    if before:
        name = f" {state.name}" if state.name else ""
        turns = f"{state.turns} turn{'' if state.turns == 1 else 's'} so far"
        screen.note(f"session {state.session_id}{name}, {turns}", "dim")
    else:
        screen.note(f"session {state.session_id} in {state.workspace}", "dim")
