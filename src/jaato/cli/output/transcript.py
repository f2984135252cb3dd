"""Render a session as text or JSON lines: a stored log, and the state of an open session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from jaato.abc.store import Damaged, Store
from jaato.agent.event_redaction import redact_log
from jaato.cli.output.console import Console, one_line
from jaato.cli.output.wording import call_text, failure_text, usage_text
from jaato.client.state import is_unfinished
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
from jaato.settings.budgets import format_count
from jaato.tools.redaction.redactor import Redactor

MAX_RESULT_CHARS = 400
MAX_ENTRIES = 20
STEP_MARKS = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-"}
Arguments = dict[str, dict[str, object]]
"""The arguments of calls, by call id."""


def write_events(store: Store, session_id: str, file: IO[bytes], secrets: Redactor) -> int:
    """Write every event as a JSON line, a damaged one as `{"damaged": …}`; return their number."""
    count = 0
    for event in redact_log(store.read(session_id), secrets):
        file.write(event_json(event) + b"\n")
        count += 1
    return count


def event_json(event: Event | Damaged) -> bytes:
    """One event as JSON."""
    if isinstance(event, Damaged):
        return json.dumps(
            {"damaged": event.reason, "session_id": event.session_id, "seq": event.seq}
        ).encode()
    return encode(event)


def render_log(store: Store, session_id: str, secrets: Redactor, *, full: bool = False) -> Iterator[str]:
    """The lines of a stored conversation, those of subagents prefixed with their names; `full` shows complete results
    and thinking."""
    arguments: Arguments = {}
    names: dict[str, str] = {}
    for event in redact_log(store.read(session_id), secrets):
        if isinstance(event, Damaged):
            yield f"[event {event.seq} is damaged: {event.reason}]"
            continue
        if isinstance(event, AgentCreated) and event.parent_agent_id is not None:
            parent = names.get(event.parent_agent_id)
            names[event.agent_id] = f"{parent}/{event.name}" if parent else event.name
        prefix = f"  [{names[event.agent_id]}] " if event.agent_id in names else ""
        for line in render_event(event, arguments, full=full):
            yield f"{prefix}{line}" if line else line


def render_event(event: Event, arguments: Arguments, *, full: bool) -> Iterator[str]:
    """The lines of one event; `arguments` are those of the calls without a result."""
    match event:
        case SessionCreated():
            yield f"session {event.session_id} {event.name or ''}".rstrip()
            yield f"created {event.timestamp} in {event.workspace}"
        case AgentCreated():
            yield f"agent {event.name}: {event.provider} {event.model}"
        case MessageUser():
            yield ""
            yield from label_lines(event.message.source, user_text(event))
        case MessageModel():
            yield ""
            for part in event.message.parts:
                match part:
                    case Text():
                        yield from label_lines("agent", part.text)
                    case Refusal():
                        yield from label_lines("refusal", part.text)
                    case Thinking() if full and part.text:
                        yield from label_lines("thinking", part.text)
            arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
        case ToolCallEnd():
            given = arguments.pop(event.call_id, {})
            yield f"> {call_text(event.tool, given if event.edited is None else event.edited, 160)}"
            yield from render_result(event.result, full=full)
        case TurnCompleted():
            yield f"-- {turn_text(event)}"
        case AgentCompleted() if event.reason != "completed":
            yield f"-- {event.reason}{f': {event.summary}' if event.summary else ''}"


def user_text(event: MessageUser) -> str:
    """The text of a user message, with the names of its attachments."""
    media = [f"[{part.name or part.mime_type}]" for part in event.message.parts if isinstance(part, Media)]
    return "\n".join([event.message.words, *media]).strip()


def label_lines(label: str, text: str) -> Iterator[str]:
    """The lines of a text, the first prefixed with a label."""
    first, *rest = text.split("\n")
    yield f"{label}: {first}"
    yield from rest


def render_result(result: ToolResult, *, full: bool) -> Iterator[str]:
    """The lines of a result, truncated unless `full`."""
    text = "\n".join(result.texts)
    if not result.ok:
        text = f"failed: {result.error.message}" if result.error else "failed"
    if not full and len(text) > MAX_RESULT_CHARS:
        text = f"{text[:MAX_RESULT_CHARS]}… ({format_count(len(text) - MAX_RESULT_CHARS, 'more character')}; --full shows all)"
    for line in text.splitlines():
        yield f"    {line}"


def turn_text(turn: TurnCompleted) -> str:
    """How a turn ended and what it used."""
    reason = "" if turn.reason == "stop" else f"{turn.reason}; "
    error = f" ({turn.error.message})" if turn.error else ""
    return f"{reason}{usage_text(turn.usage)}, {turn.duration_s:.1f} s{error}"


def print_state(console: Console, state: State, info: SessionInfo) -> None:
    """Print the current state of a session: its last entries, running calls and tasks, and its plan."""
    name = f" {state.name}" if state.name else ""
    console.note(
        f"session {state.session_id}{name} in {state.workspace}, {state.provider} {state.model}", "dim"
    )
    entries = [entry for entry in state.entries if entry.agent_id == state.root_agent_id]
    earlier = state.earlier + max(0, len(entries) - MAX_ENTRIES)
    if earlier:
        console.note(f"… {earlier} earlier entries: jaato sessions show {state.session_id}", "dim")
    arguments: Arguments = {}
    for entry in entries:
        if isinstance(entry, MessageModel):
            arguments |= {call.call_id: call.arguments for call in entry.message.function_calls}
    for entry in entries[-MAX_ENTRIES:]:
        for line in entry_lines(entry, arguments, console.width):
            console.note(line)
    for line in work_lines(state, info, console.width):
        console.note(line, "cyan")
    for line in plans_lines(state, active=True):
        console.note(line, "blue")


def entry_lines(entry: Event, arguments: Arguments, width: int) -> Iterator[str]:
    """The lines of one entry of the conversation; results are left out."""
    match entry:
        case MessageUser():
            yield from label_lines(entry.message.source, user_text(entry))
        case MessageModel():
            if entry.message.text:
                yield from label_lines("agent", entry.message.text)
        case ToolCallEnd():
            given = arguments.get(entry.call_id, {}) if entry.edited is None else entry.edited
            yield f"> {call_text(entry.tool, given, width - 2)}"
            if not entry.result.ok:
                yield failure_text(entry, width)
        case TurnCompleted():
            yield f"-- {turn_text(entry)}"
        case GcCompleted():
            yield "-- context compacted"


def work_lines(state: State, info: SessionInfo, width: int) -> Iterator[str]:
    """The lines of running or interrupted calls, and of background tasks."""
    interrupted = is_unfinished(state) and not info.at_work
    for call in state.calls.values():
        line = call_text(call.tool, call.arguments, width - 20)
        yield f"> {line} ({'interrupted' if interrupted else 'running'})"
        for printed in call.output.splitlines()[-5:]:
            yield f"    {one_line(printed, width - 4)}"
    for task in state.tasks.values():
        yield f"background task {task.task_id} ({task.tool}): {task.status}"
    if interrupted:
        yield "The last turn was interrupted, or runs in another process; /continue resumes it, a message begins another."


def plans_lines(state: State, *, active: bool = False) -> Iterator[str]:
    """The lines of the agents' current plans, or of those that are `active`: the root agent's, then those of subagents after
    their names."""
    for agent in sorted(state.agents.values(), key=lambda agent: agent.id != state.root_agent_id):
        plan = agent.plans.get(agent.plan_id or "")
        if plan is None or (active and plan.status != "active"):
            continue
        if agent.id != state.root_agent_id:
            yield f"[{one_line(agent.name, 80)}]"
        yield from plan_lines(plan)


def plan_lines(plan: Plan) -> Iterator[str]:
    """The lines of a plan, one a step."""
    yield f"{plan.title} ({plan.status})"
    for step in plan.steps:
        yield f"  [{STEP_MARKS.get(step.status, ' ')}] {step.description}"


def file_text(file: FileChange) -> str:
    """A changed file as a line."""
    slash = "/" if file.directory else ""
    lines = [f"{sign}{count}" for sign, count in (("+", file.added), ("-", file.removed)) if count]
    return f"{file.change:<9} {file.path}{slash} {' '.join(lines)}".rstrip()


def print_opening(console: Console, state: State, resumed_at: int) -> None:
    """Print the id of a new session, or of one that was resumed after its event `resumed_at`."""
    if resumed_at:
        name = f" {state.name}" if state.name else ""
        turns = f"{format_count(state.turns, 'turn')} so far"
        console.note(f"session {state.session_id}{name}, {turns}", "dim")
    else:
        console.note(f"session {state.session_id} in {state.workspace}", "dim")
