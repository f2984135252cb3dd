"""Print the events of one session at a terminal, each once, across reconnections and snapshots."""

from __future__ import annotations

import asyncio

from jaato.cli.output.console import Console, one_line
from jaato.cli.output.deltas import DeltaFilter
from jaato.cli.output.presence import OtherClients
from jaato.cli.output.printer import EventPrinter, SubagentNames, print_turn_end
from jaato.cli.output.transcript import user_text
from jaato.cli.repl.editor import Keyboard
from jaato.cli.repl.questions import Questions, Responder
from jaato.client.connection import Client
from jaato.client.session import RemoteSession
from jaato.protocol.events import (
    AgentOutput,
    AgentStatusChanged,
    CommandList,
    Event,
    MessageUser,
    MidTurnInjected,
    SessionInfo,
    SystemMessage,
    TurnCompleted,
)
from jaato.protocol.events.state import State

SERVER_NOTICE = "The turn was cut off when the server ended."
"""How the server's message about an interrupted turn starts."""
INTERRUPTED = "The turn was interrupted; calls that had started are not repeated. /continue resumes it; a message begins another."
WAITING = "The turn was interrupted; calls that had started are not repeated. The answer to its question resumes it."


class SessionOutput:
    """Prints a session's events. `changed` is set when a turn starts or ends, and when a question arrives."""

    def __init__(
        self,
        client: Client,
        session: RemoteSession,
        console: Console,
        keyboard: Keyboard,
        responder: Responder,
        *,
        verbose: bool,
    ) -> None:
        self.client = client
        self.session = session
        self.console = console
        self.keyboard = keyboard
        names = SubagentNames()
        names.restore(session.state.agents)
        self._print = DeltaFilter(EventPrinter(console, verbose=verbose, interactive=True, names=names))
        self.questions = Questions(responder, console, names)
        self.changed = asyncio.Event()
        self.printed_seq = 0
        """The last durable event that was printed."""
        self.expected_seq = 0
        """The last durable event that is known to follow."""
        self.turns: list[TurnCompleted] = []
        self.sent: list[str] = []
        """Messages from this terminal whose event has not arrived."""
        self._own_messages: set[str] = set()
        """The ids of messages from this terminal."""
        self.interrupts = 0
        """How often Ctrl-C was pressed in this turn."""
        self.exit_after_turn = False
        self.leaving = False
        self.interruption_printed = False
        self._subagent_turns: list[TurnCompleted] = []
        self._turn_open = False
        assert session.info is not None
        self._others = OtherClients(session.info, client.welcome.client_id)
        self.mode: str = session.info.sandbox.mode if session.info.sandbox is not None else ""
        """The permission mode that was last printed."""
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        with self.session.events() as events:
            async for event in events:
                self._receive(event)

    def stop(self) -> None:
        """Stop printing."""
        self._task.cancel()

    async def wait_for_change(self) -> None:
        """Wait until `changed` is set, and clear it. Raises what ended the connection for good."""
        wait = asyncio.get_running_loop().create_task(self.changed.wait())
        try:
            await asyncio.wait([wait, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
        self.changed.clear()
        if self._task.done() and not self._task.cancelled():
            self._task.result()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, as far as its events have arrived."""
        return self._turn_open or self.printed_seq < self.expected_seq

    def _receive(self, event: Event) -> None:
        before = self.busy, self.questions.current
        if isinstance(event, SessionInfo):
            self._update_info(event)
        elif isinstance(event, SystemMessage) and event.text.startswith(SERVER_NOTICE):
            self._print_interruption()
        elif not event.durable or event.seq > self.printed_seq:
            self._print_event(event)
        if isinstance(event, SessionInfo | CommandList):
            self._update_completions()
        if self.console.covered:
            self.questions.redraw()
        if before != (self.busy, self.questions.current) or self.leaving:
            self.changed.set()

    def _update_completions(self) -> None:
        info = self.session.info
        commands = [f"/{command.name}" for command in self.session.state.commands]
        self.keyboard.set_completions([*commands, *(completions(info) if info is not None else [])])

    def _print_event(self, event: Event) -> None:
        self.printed_seq = max(self.printed_seq, event.seq)
        is_root = event.agent_id == self.session.state.root_agent_id
        if isinstance(event, MessageUser) and is_root:
            self._turn_open = True
            self._print_user_message(event)
        elif isinstance(event, AgentStatusChanged) and is_root and event.status == "active":
            self._turn_open = self._turn_open or event.seq == self.printed_seq  # resumed after a crash
            self.interruption_printed = False
        self._print(event)
        if isinstance(event, MidTurnInjected) and event.message_id in self._own_messages:
            self.console.note("(your message was delivered to the agent)", "dim")
        self.questions(event)
        if isinstance(event, TurnCompleted):
            if is_root:
                self._end_turn(event)
            else:
                self._subagent_turns.append(event)

    def _print_user_message(self, event: MessageUser) -> None:
        """Print a message that another client sent."""
        text = event.message.words
        own = next((sent for sent in self.sent if text.startswith(sent)), None)
        if own is not None:
            self.sent.remove(own)
            self._own_messages.add(event.message.id)
        elif event.message.source == "user":
            line = f"{one_line(event.message.by, 80) or 'somebody'}: {one_line(user_text(event), 2_000)}"
            self.keyboard.note(line, "bold", prompt_again=False)

    def _end_turn(self, turn: TurnCompleted) -> None:
        given_up = self.interruption_printed and turn.reason == "interrupted"
        self._turn_open = self.interruption_printed = False
        self.interrupts = 0
        self.leaving = self.leaving or self.exit_after_turn
        self.turns.append(turn)
        self.console.end_text()
        subagent_turns, self._subagent_turns = self._subagent_turns, []
        if not given_up:  # its interruption was printed when it happened
            print_turn_end(self.console, turn, self.session.id, subagent_turns)

    def _update_info(self, info: SessionInfo) -> None:
        """Print which clients joined or left, and a changed mode; catch up from a snapshot."""
        own_id, connected = self.client.welcome.client_id, self.client.connected
        for line in self._others.update(info, own_id, connected=connected):
            self.keyboard.note(line, "dim", waits=True)
        if info.sandbox is not None and info.sandbox.mode != self.mode:
            if self.mode:
                self.keyboard.note(f"the mode is now {info.sandbox.mode}", "yellow", waits=True)
            self.mode = info.sandbox.mode
        if info.state is not None or info.live is not None:
            self.catch_up()

    def catch_up(self) -> None:
        """Print what was missed, from the session's state: entries, streamed text, pending questions."""
        state, info = self.session.state, self.session.info
        for entry in state.entries:
            if entry.seq > self.printed_seq:
                self._print_event(entry)
        self.printed_seq = max(self.printed_seq, state.seq)
        self._turn_open = state.open_turn is not None and info is not None and info.at_work
        for agent in state.agents.values():
            if text := agent.streaming.get("model", ""):
                self._print(
                    AgentOutput(
                        session_id=state.session_id,
                        agent_id=agent.id,
                        seq=state.seq,
                        timestamp=state.updated_at,
                        source="model",
                        text=text,
                        mode="write",
                    )
                )
        if not self._turn_open and state.open_turn is not None:
            self._print_interruption()
        if self.keyboard.interactive:
            self.questions.restore(list(state.questions.values()))
        self._update_completions()

    def _print_interruption(self) -> None:
        """Print once that the turn was interrupted."""
        self._print.reset()
        if not self.interruption_printed:
            self.keyboard.note(interruption_text(self.session.state), "yellow")
        self.interruption_printed = True


def interruption_text(state: State) -> str:
    """What resumes a turn that was interrupted."""
    return WAITING if state.questions else INTERRUPTED


def completions(info: SessionInfo) -> list[str]:
    """The commands with an argument that Tab completes: models and sessions."""
    sessions = [one.name or one.id for one in info.sessions if one.workspace == info.workspace]
    known = [f"/model {name}" for name in info.models] + [f"/resume {name}" for name in sessions]
    return [clean for text in known if (clean := one_line(text, 200)) == text]
