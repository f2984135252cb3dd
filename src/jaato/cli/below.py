"""What subagents do, told in lines beside the answer: never mixed with the words of the agent the user talks to."""

from __future__ import annotations

from collections.abc import Iterator

from jaato.cli.call_lines import call_text, printable_line, result_lines
from jaato.cli.screen import Look, one_line
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    AgentStatusChanged,
    Event,
    MessageModel,
    PlanUpdated,
    Retry,
    ToolCallEnd,
    ToolCallStart,
)

SHOWN_LINES = 8
NARROWEST = 20


def below_lines(event: Event, width: int, *, verbose: bool) -> Iterator[tuple[str, Look]]:
    """The lines that tell an event of a subagent, each with its look."""
    width = max(NARROWEST, width)
    match event:
        case AgentCreated():
            profile = f" as {event.profile}" if event.profile else ""
            yield one_line(f"begins{profile} ({event.provider} {event.model})", width), "dim"
        case MessageModel():
            lines = event.message.text.strip().splitlines()
            shown = lines if verbose else lines[:SHOWN_LINES]
            yield from ((one_line(line, 1_000), "") for line in shown)
            if len(shown) < len(lines):
                yield f"… {len(lines) - len(shown)} more lines", "dim"
        case ToolCallStart():
            yield f"> {call_text(event.tool, event.arguments, width - 2)}", "cyan"
        case ToolCallEnd():
            yield from ended_lines(event, width, verbose=verbose)
        case AgentStatusChanged(status="blocked", reason=str(reason)):
            yield one_line(reason, width), "yellow"
        case Retry():
            said = f"retry {event.attempt} of {event.max_attempts} in {event.wait_s:.3g} s: {event.error.message}"
            yield one_line(said, 1_000), "yellow"
        case PlanUpdated() if verbose:
            done = sum(step.status in ("completed", "skipped") for step in event.plan.steps)
            yield one_line(f"plan {done}/{len(event.plan.steps)}: {event.plan.title}", width), "blue"
        case AgentCompleted(reason="completed" | "closed"):
            yield "is done" if event.reason == "completed" else "is closed", "dim"
        case AgentCompleted():
            yield one_line(f"{event.reason}: {event.summary or ''}", 1_000), "yellow"


def ended_lines(event: ToolCallEnd, width: int, *, verbose: bool) -> Iterator[tuple[str, Look]]:
    """How a call ended, where that is worth a line."""
    if event.permission is not None and event.permission.decision == "denied":
        yield (
            f"x {call_text(event.tool, {}, width)} denied: {printable_line(event.permission.reason)}",
            "yellow",
        )
    elif not event.result.ok:
        problem = event.result.error.message if event.result.error else "failed"
        yield f"x {one_line(f'{event.tool}: {problem}', width - 2)}", "red"
    elif verbose:
        yield from ((f"    {line}", "dim") for line in result_lines(event.result))
