"""A session that is joined: its newest entries, what runs, what is asked, the plan, who else is there."""

from __future__ import annotations

from collections.abc import Iterator

from jaato.cli.call_lines import call_text
from jaato.cli.screen import Screen, one_line
from jaato.cli.transcript import ending_line, labelled, user_text
from jaato.client.state import unfinished
from jaato.protocol.events import (
    Event,
    GcCompleted,
    MessageModel,
    MessageUser,
    SessionInfo,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.events.state import State
from jaato.protocol.messages import Text
from jaato.protocol.specs import FileChange, Plan

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
