"""What the agent does, told in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaato.cli.below import below_lines
from jaato.cli.call_lines import call_text, confined_line, printable_line, result_lines
from jaato.cli.kin import Kin
from jaato.cli.screen import Screen, one_line
from jaato.protocol.events import (
    AgentOutput,
    AgentStatusChanged,
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
    WorkspaceFilesChanged,
)
from jaato.protocol.messages import Usage


class Narrator:
    """Listens to a session and tells it on a screen: the answer as it streams, calls, denials, retries.

    `quiet_text` keeps the answer back; `plan` tells more, as somebody at the keyboard wants it. What a subagent does is
    told beside the answer with its name in front, its words once they are whole; `kin` knows the names.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        verbose: bool = False,
        quiet_text: bool = False,
        plan: bool = False,
        kin: Kin | None = None,
    ) -> None:
        self.screen = screen
        self.kin = Kin() if kin is None else kin
        self.verbose = verbose
        self.quiet_text = quiet_text
        self.plan = plan
        self.denied: list[ToolCallEnd] = []
        self.denied_last = False
        """Whether a call of the model's last round of calls was denied."""

    def __call__(self, event: Event) -> None:
        """Tell one event."""
        self.kin(event)
        if event.agent_id in self.kin:
            self._below(event)
            return
        match event:
            case AgentOutput():
                self._output(event)
            case MessageModel():
                self._message(event)
            case ToolCallStart():
                self._begun(event.tool, event.arguments)
            case ToolCallEnd():
                if event.arguments is not None:
                    self._begun(event.tool, event.arguments)
                self._ended(event)
            case ToolOutput() if self.verbose:
                for line in event.text.splitlines():
                    self.screen.note(f"    {line}", "dim")
            case Retry():
                self.screen.note(retry_text(event), "yellow")
            case _:
                self._rest(event)

    def _begun(self, tool: str, arguments: dict[str, Any]) -> None:
        self.screen.note(f"> {call_text(tool, arguments, self.screen.width - 2)}", "cyan")

    def _below(self, event: Event) -> None:
        """What a subagent does."""
        if self.plan and isinstance(event, AgentStatusChanged):
            return  # whoever sits at the keyboard is asked the question itself
        name = self.kin.name_of(event.agent_id)
        if isinstance(event, ToolCallEnd) and event.permission and event.permission.decision == "denied":
            self.denied.append(event)
        for line, look in below_lines(event, self.screen.width - len(name) - 5, verbose=self.verbose):
            self.screen.note(f"  [{name}] {line}", look)

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
            case WorkspaceFilesChanged() if (self.plan or self.verbose) and len(event.files) + event.more > 1:
                self.screen.note(f"{len(event.files) + event.more} files changed", "dim")
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
        confined = confined_line(event) if self.verbose else None
        if confined:
            self.screen.note(f"    {confined}", "dim")
        if event.result.ok:
            if self.verbose:
                for line in result_lines(event.result):
                    self.screen.note(f"    {line}", "dim")
            return
        problem = event.result.error.message if event.result.error else "failed"
        self.screen.note(f"x {one_line(f'{event.tool}: {problem}', self.screen.width - 2)}", "red")


def retry_text(event: Retry) -> str:
    """That the model is asked again, when, and why."""
    return f"retry {event.attempt} of {event.max_attempts} in {event.wait_s:.3g} s: {event.error.message}"


def room_text(event: GcCompleted) -> str:
    """What came of making room in the context."""
    if event.problem:
        return one_line(f"no room was made in the context: {event.problem}", 1_000)
    freed = f"{event.tokens_before:,} to about {event.tokens_after:,} tokens"
    return one_line(f"room was made in the context, {freed} ({event.strategy}: {event.reason})", 1_000)


def price_text(cost_usd: float | None) -> str:
    """A price in words."""
    if cost_usd is None:
        return "price unknown"
    return "$0" if cost_usd == 0 else f"${cost_usd:.4f}" if cost_usd < 1 else f"${cost_usd:.2f}"


def usage_text(usage: Usage) -> str:
    """Tokens in words."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def tell_end(screen: Screen, turn: TurnCompleted, session_id: str, below: Sequence[TurnCompleted]) -> None:
    """How a turn ended, where that is worth a line, and what it took."""
    match turn.reason:
        case "error" | "limit" if turn.error is not None:
            screen.note(turn.error.message, "red")
        case "cancelled" | "interrupted":
            screen.note("Stopped; what was done is kept.", "yellow")
        case "refusal" | "length":
            screen.note(f"The answer ended early: {turn.reason}.", "yellow")
    screen.note(closing_line([turn], session_id, below), "dim")


def closing_line(turns: list[TurnCompleted], session_id: str, below: Sequence[TurnCompleted] = ()) -> str:
    """What it took, with the turns of subagents `below`: tokens, price, time, and where to find it again."""
    total = Usage()
    cost: float | None = 0.0
    for turn in (*turns, *below):
        total = total.plus(turn.usage)
        cost = None if cost is None or turn.cost_usd is None else cost + turn.cost_usd
    seconds = sum(turn.duration_s for turn in turns)
    calls = sum(turn.tool_calls for turn in (*turns, *below))
    return (
        f"{usage_text(total)}, {price_text(cost)}, {seconds:.1f} s, "
        f"{calls} call{'' if calls == 1 else 's'}, session {session_id}"
    )
