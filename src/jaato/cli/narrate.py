"""What the agent does, told in one line each."""

from __future__ import annotations

from typing import Any

from jaato.cli.screen import Screen, one_line
from jaato.protocol.events import (
    AgentOutput,
    BackgroundUpdated,
    ErrorRaised,
    Event,
    GcCompleted,
    InitProgress,
    MessageModel,
    MidTurnInjected,
    PlanUpdated,
    Retry,
    SystemMessage,
    ToolCallEnd,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
    WaypointUpdated,
)
from jaato.protocol.messages import Text, ToolResult, Usage

SHOWN_LINES = 8


class Narrator:
    """Listens to a session and tells it on a screen: the answer as it streams, calls, denials, retries.

    `quiet_text` keeps the answer back; `plan` tells more, as somebody at the keyboard wants it.
    """

    def __init__(
        self, screen: Screen, *, verbose: bool = False, quiet_text: bool = False, plan: bool = False
    ) -> None:
        self.screen = screen
        self.verbose = verbose
        self.quiet_text = quiet_text
        self.plan = plan
        self.denied: list[ToolCallEnd] = []
        self.denied_last = False
        """Whether a call of the model's last round of calls was denied."""

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        match event:
            case AgentOutput():
                self._output(event)
            case MessageModel():
                self._message(event)
            case ToolCallStart():
                self.screen.note(f"> {call_text(event.tool, event.arguments, self.screen.width - 2)}", "cyan")
            case ToolCallEnd():
                self._ended(event)
            case ToolOutput() if self.verbose:
                for line in event.text.splitlines():
                    self.screen.note(f"    {line}", "dim")
            case Retry():
                self._retry(event)
            case _:
                self._rest(event)

    def _rest(self, event: Event) -> None:
        match event:
            case InitProgress():
                self.screen.progress(event.step, event.done, event.total)
            case SystemMessage():
                self.screen.note(event.text, "" if event.level == "info" else "yellow")
            case GcCompleted():
                self.screen.note(room_text(event), "yellow" if event.problem else "dim")
            case ErrorRaised():
                self.screen.note(f"error: {event.error.message}", "red")
            case BackgroundUpdated():
                self.screen.note(f"background task {event.task_id} ({event.tool}): {event.status}", "dim")
            case PlanUpdated() if self.plan or self.verbose:
                steps = event.plan.steps
                done = sum(step.status in ("completed", "skipped") for step in steps)
                now = next(
                    (step.description for step in steps if step.status == "in_progress"), event.plan.title
                )
                text = f"plan {done}/{len(steps)}: {now}"
                self.screen.note(one_line(text, self.screen.width), "blue")
            case WaypointUpdated() if self.plan or self.verbose:
                text = f"waypoint {event.waypoint.id} {event.action}: {printable_line(event.waypoint.description)}"
                self.screen.note(one_line(text, self.screen.width), "blue")
            case MidTurnInjected() if self.plan:
                self.screen.note("(your message has reached the agent)", "dim")

    def _output(self, event: AgentOutput) -> None:
        if event.source == "thinking":
            if self.verbose and event.text:
                self.screen.note(event.text.rstrip("\n"), "dim")
            return
        if not self.quiet_text and not self.screen.whole_messages:
            self.screen.text(event.text)

    def _message(self, event: MessageModel) -> None:
        if event.message.function_calls:
            self.denied_last = False
        if self.quiet_text:
            return
        if self.screen.whole_messages and event.message.text:
            self.screen.text(event.message.text)
        self.screen.end_text()

    def _ended(self, event: ToolCallEnd) -> None:
        if event.permission is not None and event.permission.decision == "denied":
            self.denied.append(event)
            self.denied_last = True
            name = call_text(event.tool, {}, self.screen.width)
            self.screen.note(f"x {name} denied: {printable_line(event.permission.reason)}", "yellow")
            return
        if event.result.ok:
            if self.verbose:
                for line in result_lines(event.result):
                    self.screen.note(f"    {line}", "dim")
            return
        problem = event.result.error.message if event.result.error else "failed"
        self.screen.note(f"x {one_line(f'{event.tool}: {problem}', self.screen.width - 2)}", "red")

    def _retry(self, event: Retry) -> None:
        again = f"retry {event.attempt} of {event.max_attempts} in {event.wait_s:.3g} s"
        self.screen.note(f"{again}: {event.error.message}", "yellow")


def room_text(event: GcCompleted) -> str:
    """What came of making room in the context."""
    if event.problem:
        return one_line(f"no room was made in the context: {event.problem}", 1_000)
    freed = f"{event.tokens_before:,} to about {event.tokens_after:,} tokens"
    return one_line(f"room was made in the context, {freed} ({event.strategy}: {event.reason})", 1_000)


def printable_line(text: str) -> str:
    """A reason on one line, whole."""
    return one_line(text, 1_000)


def call_text(tool: str, arguments: dict[str, Any], width: int) -> str:
    """A call on one line."""
    parts = [f"{name}={value_text(value)}" for name, value in arguments.items()]
    if list(arguments) == ["command"]:
        parts = [str(arguments["command"])]
    return one_line(" ".join([tool, *parts]), max(20, width))


def value_text(value: Any) -> str:
    """An argument, cut where it is long."""
    if isinstance(value, str):
        first = value.split("\n", 1)[0]
        cut = first if len(first) <= 60 else first[:59] + "…"
        more = f" (+{len(value) - len(cut)} characters)" if len(value) > len(cut) else ""
        return f"{cut!r}{more}" if " " in cut or not cut else f"{cut}{more}"
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def result_lines(result: ToolResult) -> list[str]:
    """The first lines of what a tool gave back."""
    text = "\n".join([part.text for part in result.content if isinstance(part, Text)])
    lines = text.splitlines()
    more = [f"… {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return [*[one_line(line, 200) for line in lines[:SHOWN_LINES]], *more]


def price_text(cost_usd: float | None) -> str:
    """A price in words."""
    if cost_usd is None:
        return "price unknown"
    return "$0" if cost_usd == 0 else f"${cost_usd:.4f}" if cost_usd < 1 else f"${cost_usd:.2f}"


def usage_text(usage: Usage) -> str:
    """Tokens in words."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def closing_line(turns: list[TurnCompleted], session_id: str) -> str:
    """What it took: tokens, price, time, and where to find it again."""
    total = Usage()
    cost: float | None = 0.0
    for turn in turns:
        total = total.plus(turn.usage)
        cost = None if cost is None or turn.cost_usd is None else cost + turn.cost_usd
    seconds = sum(turn.duration_s for turn in turns)
    calls = sum(turn.tool_calls for turn in turns)
    return (
        f"{usage_text(total)}, {price_text(cost)}, {seconds:.1f} s, "
        f"{calls} call{'' if calls == 1 else 's'}, session {session_id}"
    )
