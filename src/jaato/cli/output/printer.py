"""Print the events of a session as they arrive: the answer, calls, denials, retries, subagents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jaato.cli.output.console import Console, one_line
from jaato.cli.output.wording import (
    MIN_WIDTH,
    Line,
    call_line,
    event_lines,
    is_denied,
    progress_lines,
    result_lines,
    sandbox_lines,
    subagent_lines,
    summary_line,
    turn_end_lines,
)
from jaato.protocol.events import (
    AgentCreated,
    AgentOutput,
    AgentStatusChanged,
    BackgroundUpdated,
    Event,
    InitProgress,
    MessageModel,
    PlanUpdated,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.events.state import AgentView
from jaato.protocol.specs import SandboxView


class SubagentNames:
    """The names of the subagents of a session, by agent id. Receives events before they are printed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def __call__(self, event: Event) -> None:
        """Add the subagent that an event creates."""
        if isinstance(event, AgentCreated) and event.parent_agent_id is not None:
            self._known[event.agent_id] = event.name, event.parent_agent_id

    def restore(self, agents: Mapping[str, AgentView]) -> None:
        """Add the subagents of a session's state."""
        for agent in agents.values():
            if agent.parent_agent_id is not None:
                self._known[agent.id] = agent.name, agent.parent_agent_id

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def name_of(self, agent_id: str) -> str:
        """The names from the root's subagent down to this one, separated by `/`; empty for the root agent."""
        names: list[str] = []
        while agent_id in self._known and len(names) < len(self._known):
            name, agent_id = self._known[agent_id]
            names.append(name)
        return "/".join(reversed(names))


class EventPrinter:
    """Prints events: the root agent's answer on stdout, everything else on stderr.

    `quiet_text` suppresses the answer; `interactive` adds what a user at the prompt wants to see. Events of a subagent are
    prefixed with its name, its messages printed when they are complete.
    """

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        quiet_text: bool = False,
        interactive: bool = False,
        names: SubagentNames | None = None,
    ) -> None:
        self.console = console
        self.names = SubagentNames() if names is None else names
        self.verbose = verbose
        self.quiet_text = quiet_text
        self.interactive = interactive
        self.denied: list[ToolCallEnd] = []
        self.denied_last = False
        """Whether a call in the root agent's last round of calls was denied."""

    def __call__(self, event: Event) -> None:
        """Print one event."""
        self.names(event)
        if isinstance(event, ToolCallEnd) and is_denied(event):
            self.denied.append(event)
        if event.agent_id in self.names:
            self._print_subagent(event)
            return
        match event:
            case AgentOutput(source="thinking"):
                if self.verbose and event.text:
                    self.console.note(event.text.rstrip("\n"), "dim")
            case AgentOutput():
                if not self.quiet_text and not self.console.whole_messages:
                    self.console.text(event.text)
            case MessageModel():
                self._print_message(event)
            case ToolCallEnd():
                if event.arguments is not None:
                    self._note(call_line(event.tool, event.arguments, self.console.width))
                self.denied_last = self.denied_last or is_denied(event)
                self._notes(result_lines(event, self.console.width, verbose=self.verbose))
            case InitProgress():
                self.console.progress(event.step, event.done, event.total, event.unit)
            case _:
                waits = isinstance(event, BackgroundUpdated)  # it comes at any time
                self._notes(event_lines(event, self.console.width, verbose=self.verbose), waits=waits)
                if self.interactive or self.verbose:
                    self._notes(progress_lines(event, self.console.width))

    def _note(self, line: Line) -> None:
        self.console.note(*line)

    def _notes(self, lines: Iterator[Line], *, waits: bool = False) -> None:
        for text, look in lines:
            self.console.note(text, look, waits=waits)

    def _print_subagent(self, event: Event) -> None:
        if self.interactive and isinstance(event, AgentStatusChanged):
            return  # the user sees the question itself
        if isinstance(event, PlanUpdated) and not (self.interactive or self.verbose):
            return
        name = self.names.name_of(event.agent_id)
        width = max(MIN_WIDTH, self.console.width - len(name) - 5)
        for line, look in subagent_lines(event, width, verbose=self.verbose):
            self.console.note(f"  [{name}] {line}", look, waits=True)

    def _print_message(self, event: MessageModel) -> None:
        if event.message.function_calls:
            self.denied_last = False
        if self.quiet_text:
            return
        if self.console.whole_messages and event.message.text:
            self.console.text(event.message.text)
        self.console.end_text()


def print_sandbox(console: Console, view: SandboxView) -> None:
    """Print the sandbox of a session in one line, highlighted when there is none."""
    allowed = [*view.domains, *view.paths]
    more = f", allowed: {', '.join(allowed)}" if allowed else ""
    line = one_line(f"{next(sandbox_lines(view))}{more}", max(console.width, 80))
    console.note(line, "dim" if view.backend and not view.full else "yellow")


def print_turn_end(
    console: Console, turn: TurnCompleted, session_id: str, subagent_turns: Sequence[TurnCompleted]
) -> None:
    """Print why a turn ended, unless it completed, and what it used."""
    for line, look in turn_end_lines(turn):
        console.note(line, look)
    console.note(summary_line([turn], session_id, subagent_turns), "dim")
