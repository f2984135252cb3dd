"""What one session shows at a terminal: its events, each once, however they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from jaato.cli.output.printer import Kin, Narrator, tell_end
from jaato.cli.output.terminal import Screen, one_line
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
    MessageModel,
    MessageUser,
    Retry,
    SessionInfo,
    SystemMessage,
    TurnCompleted,
)

SERVERS_WORDS = "The turn was cut off when the server ended."
CUT_OFF = "The turn was cut off; what had begun is not repeated. /continue goes on with it, a message too."


class SessionOutput:
    """Told the events of a session, each once. `changed` is set when something has begun, ended or been asked."""

    def __init__(
        self,
        client: Client,
        session: RemoteSession,
        screen: Screen,
        keyboard: Keyboard,
        responder: Responder,
        *,
        verbose: bool,
    ) -> None:
        self.client = client
        self.session = session
        self.screen = screen
        self.keyboard = keyboard
        kin = Kin()
        kin.restore(session.state.agents)
        self._stream = DeltaFilter(Narrator(screen, verbose=verbose, plan=True, kin=kin))
        self.questions = Questions(responder, screen, kin)
        self.changed = asyncio.Event()
        self.told_seq = 0
        self.expected = 0
        """The last event that is known to come."""
        self.turns: list[TurnCompleted] = []
        self.said: list[str] = []
        """Messages of this terminal that have not come back yet."""
        self.presses = 0
        """How often Ctrl-C was pressed in this turn."""
        self.ending = False
        """Whether the terminal leaves when the turn is over."""
        self.leaving = False
        self.cut_off_told = False
        """Whether it was said already that the turn was cut off."""
        self._below: list[TurnCompleted] = []
        self._open = False
        assert session.info is not None
        self.present = {one.id: one.name for one in session.info.clients}
        self.mode: str = session.info.sandbox.mode if session.info.sandbox is not None else ""
        """The mode that was told last."""
        self._own = {client.welcome.client_id}
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        with self.session.events() as events:
            async for event in events:
                self.tell(event)

    def stop(self) -> None:
        """Hear no more."""
        self._listening.cancel()

    async def change(self) -> None:
        """Until something has begun, ended or been asked. Raises what ended the connection for good."""
        wait = asyncio.get_running_loop().create_task(self.changed.wait())
        try:
            await asyncio.wait([wait, self._listening], return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
        self.changed.clear()
        if self._listening.done() and not self._listening.cancelled():
            self._listening.result()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, as far as it was told here."""
        return self._open or self.told_seq < self.expected

    def tell(self, event: Event) -> None:
        """Something has happened."""
        before = self.busy, self.questions.current
        if isinstance(event, SessionInfo):
            self._informed(event)
        elif isinstance(event, SystemMessage) and event.text.startswith(SERVERS_WORDS):
            self._cut_off()
        elif not event.durable or event.seq > self.told_seq:
            self._one(event)
        if isinstance(event, SessionInfo | CommandList):
            self.complete()
        if before != (self.busy, self.questions.current) or self.leaving:
            self.changed.set()

    def complete(self) -> None:
        """Have completed what there is now: commands of plugins, models, sessions."""
        info = self.session.info
        theirs = [f"/{command.name}" for command in self.session.state.commands]
        self.keyboard.offer([*theirs, *(completions(info) if info is not None else [])])

    def _one(self, event: Event) -> None:
        self.told_seq = max(self.told_seq, event.seq)
        root = event.agent_id == self.session.state.root_agent_id
        if isinstance(event, MessageUser) and root:
            self._open = True
            self._heard(event)
        elif isinstance(event, AgentStatusChanged) and root and event.status == "active":
            self._open = self._open or event.seq == self.told_seq  # it goes on after a crash
            self.cut_off_told = False
        self._stream(event)
        self.questions(event)
        if isinstance(event, TurnCompleted):
            if root:
                self._over(event)
            else:
                self._below.append(event)

    def _heard(self, event: MessageUser) -> None:
        """A message has reached the agent: told where it was not said here."""
        text = event.message.words
        mine = next((said for said in self.said if text.startswith(said)), None)
        if mine is not None:
            self.said.remove(mine)
        elif event.message.source == "user":
            who = one_line(event.message.by, 80) or "somebody"
            said = f"{who}: {one_line(user_text(event), 2_000)}"
            self.keyboard.aside(said, "bold", again=False)

    def _over(self, turn: TurnCompleted) -> None:
        self._open = self.cut_off_told = False
        self.presses = 0
        self.leaving = self.leaving or self.ending
        self.turns.append(turn)
        self.screen.end_text()
        below, self._below = self._below, []
        tell_end(self.screen, turn, self.session.id, below)

    def _informed(self, info: SessionInfo) -> None:
        now = {client.id: client.name for client in info.clients}
        own = self.client.welcome.client_id
        if (
            self.client.connected and own in self._own
        ):  # on a new connection the others may have new ones, too
            for client in now.keys() - self.present.keys() - self._own:
                self.keyboard.aside(f"{one_line(now[client], 80)} has come", "dim")
            for client in self.present.keys() - now.keys() - self._own:
                self.keyboard.aside(f"{one_line(self.present[client], 80)} has left", "dim")
        self.present = now
        self._own.add(own)
        if info.sandbox is not None and info.sandbox.mode != self.mode:
            if self.mode:
                self.keyboard.aside(f"the mode is {info.sandbox.mode} now", "yellow")
            self.mode = info.sandbox.mode
        if info.state is not None or info.live is not None:
            self.catch_up()

    def catch_up(self) -> None:
        """Tell what was missed, from the state: entries, the words that are being said, questions."""
        session = self.session
        state, info = session.state, session.info
        for entry in state.entries:
            if entry.seq > self.told_seq:
                self._one(entry)
        self.told_seq = max(self.told_seq, state.seq)
        self._open = state.open_turn is not None and info is not None and info.at_work
        for agent in state.agents.values():
            if text := agent.streaming.get("model", ""):
                head: dict[str, Any] = {"session_id": state.session_id, "agent_id": agent.id}
                head |= {"seq": state.seq, "timestamp": state.updated_at}
                self._stream(AgentOutput(**head, source="model", text=text, mode="write"))
        if not self._open and state.open_turn is not None:
            self._cut_off()
        if self.keyboard.interactive:
            self.questions.restore(list(state.questions.values()) if self._open else [])
        self.complete()

    def _cut_off(self) -> None:
        """Say that the turn was cut off: once, whoever says so first."""
        if not self.cut_off_told:
            self.keyboard.aside(CUT_OFF, "yellow")
        self.cut_off_told = True


def completions(info: SessionInfo) -> list[str]:
    """What Tab can make of the beginning of a command: the models and the sessions there are."""
    sessions = [one.name or one.id for one in info.sessions if one.workspace == info.workspace]
    known = [f"/model {name}" for name in info.models] + [f"/resume {name}" for name in sessions]
    return [clean for text in known if (clean := one_line(text, 200)) == text]


class DeltaFilter:
    """Passes events on to a listener; of an agent's words only those it has not had."""

    def __init__(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._shown: dict[tuple[str, str], int] = {}
        """Characters shown of the message that is being said, by agent and kind of text."""

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        match event:
            case AgentOutput():
                self._piece(event)
                return
            case MessageModel():
                self._rest(event)
            case Retry() | TurnCompleted():
                self._forget(event.agent_id)
        self._listener(event)

    def _piece(self, event: AgentOutput) -> None:
        key = (event.agent_id, event.source)
        shown = self._shown.get(key, 0)
        if event.offset > shown:
            return  # words are missing before these; the whole message brings them
        text = event.text[shown - event.offset :]
        if text:
            self._shown[key] = shown + len(text)
            self._listener(msgspec.structs.replace(event, text=text, offset=shown))

    def _rest(self, event: MessageModel) -> None:
        shown = self._shown.get((event.agent_id, "model"), 0)
        rest = event.message.text[shown:]
        if rest:
            head: dict[str, Any] = {
                "session_id": event.session_id,
                "agent_id": event.agent_id,
                "seq": event.seq,
                "timestamp": event.timestamp,
            }
            self._listener(AgentOutput(**head, source="model", text=rest, mode="append", offset=shown))
        self._forget(event.agent_id)

    def _forget(self, agent_id: str) -> None:
        for key in [key for key in self._shown if key[0] == agent_id]:
            del self._shown[key]
