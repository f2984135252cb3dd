"""Print the events of a session as they come: the answer, calls, denials, retries, subagents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaato.cli.output.renderers import call_text, confined_line, printable_line, result_lines
from jaato.cli.output.terminal import Look, Screen, one_line
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
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
from jaato.protocol.events.state import AgentView
from jaato.protocol.messages import Usage


class Kin:
    """The agents below the one the user talks to. Takes in events before they are told."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        if isinstance(event, AgentCreated) and event.parent_agent_id is not None:
            self._known[event.agent_id] = event.name, event.parent_agent_id

    def restore(self, agents: Mapping[str, AgentView]) -> None:
        """Those of a session that is joined."""
        for agent in agents.values():
            if agent.parent_agent_id is not None:
                self._known[agent.id] = agent.name, agent.parent_agent_id

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def name_of(self, agent_id: str) -> str:
        """The names from the agent below the root down to this one, with `/` between them; empty for the root's own id."""
        names: list[str] = []
        while agent_id in self._known and len(names) < len(self._known):
            name, agent_id = self._known[agent_id]
            names.append(name)
        return "/".join(reversed(names))


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
