"""The texts and lines that show events in every client: calls, results, retries, compactions, usage, the ends of turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from jaato.cli.output.console import Look, one_line, visible
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentStatusChanged,
    BackgroundUpdated,
    BudgetUpdated,
    ErrorRaised,
    Event,
    GcCompleted,
    MessageModel,
    PlanUpdated,
    Retry,
    SystemMessage,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
    WaypointUpdated,
    WorkspaceFilesChanged,
)
from jaato.protocol.messages import ToolResult, Usage
from jaato.protocol.specs import SandboxView, Waypoint
from jaato.settings.budgets import format_amount, format_count, price_text
from jaato.tools.permissions.access import access_text

MAX_LINES = 8
MAX_ARGUMENT_LINES = 30
MAX_LINE_CHARS = 1_000
MIN_WIDTH = 20
Line = tuple[str, Look]
INCOMPLETE = {
    "refusal": "The model refused to continue.",
    "length": "The answer was truncated at the maximum length.",
}
"""Why an answer is incomplete, by the reason of the turn's end."""


def is_denied(event: ToolCallEnd) -> bool:
    """Whether the call was denied."""
    return event.permission is not None and event.permission.decision == "denied"


def event_lines(event: Event, width: int, *, verbose: bool) -> Iterator[Line]:
    """The lines for an event of any agent or of the session."""
    match event:
        case ToolCallStart():
            yield call_line(event.tool, event.arguments, width)
        case ToolOutput() if verbose:
            yield from ((f"    {line}", "dim") for line in event.text.splitlines())
        case Retry():
            yield retry_text(event), "yellow"
        case SystemMessage():
            yield event.text, "" if event.level == "info" else "yellow"
        case GcCompleted():
            yield compaction_text(event), "yellow" if event.problem else "dim"
        case BudgetUpdated(status="extended"):
            limit = format_amount(event.unit, event.limit)
            yield f"the budget per {event.scope} is {limit} now", "dim"
        case ErrorRaised():
            yield f"error: {event.error.message}", "red"
        case BackgroundUpdated():
            yield f"background task {event.task_id} ({event.tool}): {event.status}", "dim"


def is_by_agent(waypoint: Waypoint) -> bool:
    """Whether the agent made it for itself. Those of the user are shown by the command that makes them."""
    return waypoint.owner == "model" and not waypoint.ceiling


def progress_lines(event: Event, width: int) -> Iterator[Line]:
    """The lines for plans, waypoints and changed files."""
    match event:
        case PlanUpdated():
            steps = event.plan.steps
            done = sum(step.status in ("completed", "skipped") for step in steps)
            now = next((step.description for step in steps if step.status == "in_progress"), event.plan.title)
            yield one_line(f"plan {done}/{len(steps)}: {now}", width), "blue"
        case WaypointUpdated() if event.action == "restored" or is_by_agent(event.waypoint):
            text = f"waypoint {event.waypoint.id} {event.action}: {event.waypoint.description}"
            yield one_line(text, width), "blue"
        case WorkspaceFilesChanged() if len(event.files) + event.more > 1:
            yield f"{len(event.files) + event.more} files changed", "dim"


def subagent_lines(event: Event, width: int, *, verbose: bool) -> Iterator[Line]:
    """The lines for an event of a subagent, without its name."""
    match event:
        case AgentCreated():
            profile = f" as {event.profile}" if event.profile else ""
            yield one_line(f"started{profile} ({event.provider} {shorten_model(event.model)})", width), "dim"
        case MessageModel():
            lines = event.message.text.strip().splitlines()
            shown = lines if verbose else lines[:MAX_LINES]
            yield from ((one_line(line, MAX_LINE_CHARS), "") for line in shown)
            if len(shown) < len(lines):
                yield f"… {format_count(len(lines) - len(shown), 'more line')}", "dim"
        case ToolCallEnd():
            yield from result_lines(event, width, verbose=verbose)
        case AgentStatusChanged(status="blocked", reason=str(reason)):
            yield one_line(reason, width), "yellow"
        case ToolCallStart() | Retry():
            yield from event_lines(event, width, verbose=verbose)
        case PlanUpdated():
            yield from progress_lines(event, width)
        case AgentCompleted(reason="completed" | "closed"):
            yield event.reason, "dim"
        case AgentCompleted():
            yield one_line(f"{event.reason}: {event.summary or ''}", MAX_LINE_CHARS), "yellow"


def call_line(tool: str, arguments: dict[str, Any], width: int) -> Line:
    """The line for a call that starts."""
    return f"> {call_text(tool, arguments, width - 2)}", "cyan"


def result_lines(event: ToolCallEnd, width: int, *, verbose: bool) -> Iterator[Line]:
    """The lines for a call that ended: a denial, a failure or, when verbose, its sandbox and result."""
    if is_denied(event) and event.permission is not None:
        name = call_text(event.tool, {}, width)
        yield f"x {name} denied: {one_line(event.permission.reason, MAX_LINE_CHARS)}", "yellow"
        return
    if verbose and (text := sandbox_text(event)):
        yield f"    {text}", "dim"
    if not event.result.ok:
        yield failure_text(event, width), "red"
    elif verbose:
        yield from ((f"    {line}", "dim") for line in result_preview(event.result))


def failure_text(event: ToolCallEnd, width: int) -> str:
    """A failed call on one line."""
    problem = event.result.error.message if event.result.error else "failed"
    return f"x {one_line(f'{event.tool}: {problem}', width - 2)}"


def sandbox_text(event: ToolCallEnd) -> str | None:
    """The sandbox of a call's process, and the accesses it refused; None for a call without a process."""
    access = event.permission.access if event.permission is not None else None
    result = event.result.structured if isinstance(event.result.structured, dict) else {}
    profile = result.get("sandbox") or access_text(access)
    if not profile:
        return None
    refused = result.get("refused")
    more = f"; refused: {', '.join(map(str, refused))}" if isinstance(refused, list) and refused else ""
    return one_line(f"sandbox: {profile}{more}", MAX_LINE_CHARS)


def call_text(tool: str, arguments: dict[str, Any], width: int) -> str:
    """A call on one line; a shell command is shown unabridged, before the other arguments."""
    parts = [f"{name}={value_text(value)}" for name, value in arguments.items() if name != "command"]
    command = arguments.get("command")
    if command is not None:
        parts = [str(command), *([f"({' '.join(parts)})"] if parts else [])]
    return one_line(" ".join([tool, *parts]), max(MIN_WIDTH, width))


def shorten_model(model: str) -> str:
    """The name of a model; of a path its last part."""
    return model.rstrip("/").rpartition("/")[2] or model


def value_text(value: Any) -> str:
    """An argument, truncated."""
    if isinstance(value, str):
        first = value.split("\n", 1)[0]
        cut = first if len(first) <= 60 else first[:59] + "…"
        more = f" (+{format_count(len(value) - len(cut), 'character')})" if len(value) > len(cut) else ""
        quoted = json.dumps(cut, ensure_ascii=False) if " " in cut or not cut else cut
        return f"{quoted}{more}"
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 60 else text[:59] + "…"


def result_preview(result: ToolResult) -> list[str]:
    """The first lines of a result."""
    lines = "\n".join(result.texts).splitlines()
    more = [f"… {format_count(len(lines) - MAX_LINES, 'more line')}"] if len(lines) > MAX_LINES else []
    return [*[one_line(line, 200) for line in lines[:MAX_LINES]], *more]


def indent_argument(name: str, value: Any, *, whole: bool = False) -> str:
    """An argument, as a user must see what a permission allows; of one beyond a screenful its beginning and its end, unless
    it is to be the `whole`."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    lines = visible(text).split("\n")
    if len(lines) > MAX_ARGUMENT_LINES and not whole:
        left, last = len(lines) - MAX_ARGUMENT_LINES, MAX_ARGUMENT_LINES // 3
        lines = [
            *lines[: MAX_ARGUMENT_LINES - last],
            f"… {format_count(left, 'more line')} (v shows all) …",
            *lines[-last:],
        ]
    cut = [
        one
        if len(one) <= 2_000 or whole
        else f"{one[:1_000]}… ({format_count(len(one) - 2_000, 'more character')}; v shows all) …{one[-1_000:]}"
        for one in lines
    ]
    return f"  {name}: " + "\n    ".join(cut)


def sandbox_lines(view: SandboxView) -> Iterator[str]:
    """Permission mode, sandbox, and what it allows beyond the workspace."""
    full = "; NO SANDBOX for commands that a rule allows (--sandbox full)" if view.full else ""
    yield f"mode {view.mode}, sandbox {view.backend or 'NO SANDBOX on this machine'}{full}"
    if view.domains:
        yield f"network {', '.join(view.domains)}"
    for path in view.paths:
        yield f"commands may also change {path}"


def retry_text(event: Retry) -> str:
    """A retry of a model call: its delay (backoff) and the error."""
    text = f"retry {event.attempt} of {event.max_attempts} in {event.wait_s:.3g} s: {event.error.message}"
    return one_line(text, MAX_LINE_CHARS)


def compaction_text(event: GcCompleted) -> str:
    """The outcome of a compaction of the context."""
    if event.problem:
        return one_line(f"the context was not compacted: {event.problem}", MAX_LINE_CHARS)
    freed = f"{event.tokens_before:,} to about {format_count(event.tokens_after, 'token')}"
    if event.cleared:
        freed += f", {format_count(event.cleared, 'tool result')} cleared"
    return one_line(f"context compacted, {freed} ({event.strategy}: {event.reason})", MAX_LINE_CHARS)


def usage_text(usage: Usage) -> str:
    """Token counts for people."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    return f"{format_count(usage.input_tokens, 'token')} in{cached}, {usage.output_tokens:,} out"


def turn_end_lines(turn: TurnCompleted) -> Iterator[Line]:
    """Why a turn ended, unless it completed."""
    match turn.reason:
        case "error" | "limit" if turn.error is not None:
            yield turn.error.message, "red"
        case "cancelled" | "interrupted":
            yield "Interrupted; completed work is kept.", "yellow"
        case "refusal" | "length":
            yield INCOMPLETE[turn.reason], "yellow"


def summary_line(
    turns: Sequence[TurnCompleted], session_id: str, subagent_turns: Sequence[TurnCompleted] = ()
) -> str:
    """Tokens, price, time and calls of some turns, and the session's id."""
    total = Usage()
    cost: float | None = 0.0
    for turn in (*turns, *subagent_turns):
        total = total.plus(turn.usage)
        cost = None if cost is None or turn.cost_usd is None else cost + turn.cost_usd
    seconds = sum(turn.duration_s for turn in turns)
    calls = sum(turn.tool_calls for turn in (*turns, *subagent_turns))
    return (
        f"{usage_text(total)}, {price_text(cost)}, {seconds:.1f} s, "
        f"{format_count(calls, 'call')}, session {session_id}"
    )
