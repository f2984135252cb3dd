"""A session of the server at the terminal: what happens in it, and what is said to it. It comes back by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.asking import Questions
from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.joined_commands import COMMANDS, obey
from jaato.cli.keyboard import BROKEN, Keyboard
from jaato.cli.kin import Kin
from jaato.cli.narrate import Narrator, closing_line
from jaato.cli.options import clean_text
from jaato.cli.reach import own_name
from jaato.cli.screen import Screen, one_line
from jaato.cli.shown import show
from jaato.cli.signals import heeded, restore_terminal
from jaato.cli.stream import Stream
from jaato.client.address import Address
from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.commands import (
    ClarificationResponse,
    ClientConfig,
    File,
    MessageSend,
    PermissionResponse,
    SessionCreate,
    SessionDetach,
)
from jaato.protocol.events import (
    AgentOutput,
    AgentStatusChanged,
    Event,
    MessageUser,
    SessionInfo,
    TurnCompleted,
)
from jaato.protocol.frames import Opened, Taken
from jaato.settings import environment

PATIENCE = 3
"""How often Ctrl-C must be pressed in one turn until the program itself ends."""


class Joined:
    """A terminal at one session at a time. `creation` is what the command line says of it (`jaato chat`): it holds while
    this terminal is there, and leaving waits for the turn; without it (`jaato attach`) the work goes on."""

    def __init__(self, args: Namespace, address: Address, creation: SessionCreate | None) -> None:
        environ = environment()
        self.args = args
        self.screen = Screen(environ)
        self.keyboard = Keyboard(environ, self.screen, [f"/{name}" for name in COMMANDS])
        self.address = address
        self.creation = creation
        self.client: Client
        self.session: RemoteSession
        self.leaving = False
        self.code = OK
        self.turns: list[TurnCompleted] = []
        self.files: list[File] = []
        """What goes with the next message."""
        self.told_seq = 0
        self._below: list[TurnCompleted] = []
        self._said: list[str] = []
        self._expected = 0
        self._open = False
        self._presses = 0
        self._ending = False
        """Whether the terminal leaves when the turn is over."""
        self._present: dict[str, str] = {}
        self._hearing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.questions: Questions
        self._stream: Callable[[Event], None]

    async def run(self) -> int:
        """Join, take line after line, leave."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        numbers = heeded()
        for number in numbers:
            loop.add_signal_handler(
                number, self._interrupted if number == signal.SIGINT else self._terminated
            )
        try:
            where = self.address
            async with connect(where.path or str(where), token=where.token, name=own_name()) as client:
                self.client = client
                client.on_connection = self._connection
                if not self.keyboard.interactive:
                    await client.ask(ClientConfig(answers=False))
                await self.open(self.creation)
                if self.keyboard.interactive:
                    self.screen.note("/help lists the commands, Ctrl-D leaves.", "dim")
                first = (clean_text(" ".join(getattr(self.args, "prompt", None) or [])) or "").strip()
                if first:
                    await self.say(first)
                while not self.leaving:
                    await self._next()
                await self.close()
        except asyncio.CancelledError:
            self.code = INTERRUPTED
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
        return self.code

    # --- sessions ------------------------------------------------------------------------------------------------

    async def open(self, creation: SessionCreate | None) -> None:
        """Begin or join a session. Raises `JaatoError`, and stays in the one before."""
        before = 0
        if creation is None:
            session = await self.client.attach(self.args.session)
        else:
            opened = await self.client.ask(creation)
            assert isinstance(opened, Opened)
            self.screen.note(f"{opened.provider} {opened.model} ({opened.reason})", "dim")
            session = await self.client.attach(opened.session_id)
            before = opened.before
            self.creation = creation
        self._enter(session)
        assert session.info is not None
        if creation is None:
            show(self.screen, session.state, session.info)
            self.told_seq = session.state.seq
        else:
            self.told_seq = before
            self._opening(session, before)
        self._catch_up(session)

    async def change(self, creation: SessionCreate | None, named: str | None) -> None:
        """Go on in another session; where that fails, in this one. Raises `JaatoError`."""
        before, self.args.session = self.session, named or self.args.session
        await self.open(creation)
        if before.id != self.session.id:
            before.watched = False
            await self.client.ask(SessionDetach(session_id=before.id))

    def _enter(self, session: RemoteSession) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
        self.session = session
        kin = Kin()
        kin.restore(session.state.agents)
        verbose = getattr(self.args, "verbose", False)
        self._stream = Stream(Narrator(self.screen, verbose=verbose, plan=True, kin=kin))
        self.questions = Questions(self, self.screen, kin)
        self.turns, self._below, self._said = [], [], []
        self._expected, self._open = 0, False
        assert session.info is not None
        self._present = {client.id: client.name for client in session.info.clients}
        self._hearing = asyncio.get_running_loop().create_task(self._hear(session))

    def _opening(self, session: RemoteSession, before: int) -> None:
        state = session.state
        if before:
            name = f" {state.name}" if state.name else ""
            turns = f"{state.turns} turn{'' if state.turns == 1 else 's'} so far"
            self.screen.note(f"session {state.session_id}{name}, {turns}", "dim")
        else:
            self.screen.note(f"session {state.session_id} in {state.workspace}", "dim")

    async def close(self) -> None:
        """Leave the session: what the command line said of it holds no more."""
        for task in self.session.state.tasks.values() if self.creation is not None else ():
            text = f"background task {task.task_id} ({task.tool}) still runs and is stopped now"
            self.screen.note(text, "yellow")
        self.session.watched = False
        if self._hearing is not None:
            self._hearing.cancel()
            self._hearing = None
        try:
            async with asyncio.timeout(None if self.creation is not None else 5.0):
                await self.client.ask(SessionDetach(session_id=self.session.id))
        except (JaatoError, TimeoutError):
            pass  # the server is away, and forgets this terminal by itself

    # --- lines ---------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a turn runs, as far as it was told here."""
        return self._open or self.told_seq < self._expected

    async def _next(self) -> None:
        """Take one line, and do what it says."""
        if not self.keyboard.interactive:
            while self.busy:
                await self._change()
        working = self.busy or self.questions.current is not None
        typed = asyncio.get_running_loop().create_task(self.keyboard.read(working=working))
        change = asyncio.get_running_loop().create_task(self._change())
        try:
            await asyncio.wait([typed, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            if not typed.done():
                typed.cancel()
            await asyncio.wait([typed, change])
        if not change.cancelled() and change.exception() is not None:
            change.result()
        if self.leaving or typed.cancelled():
            return
        line = typed.result()
        if line == BROKEN:
            self._hint()
        else:
            await self._take(line, working=working)

    async def _take(self, line: str | None, *, working: bool) -> None:
        if line is None:
            await self._end_of_input()
            return
        if self.questions.current is not None:
            self.questions.take(line)
            return
        text = self.keyboard.whole(line)
        if text is None:
            return
        try:
            if not self.keyboard.is_command(text):
                if text:
                    await self.say(text)
            elif not working:
                await obey(self, text[1:])
            elif text == "/stop":
                await self.session.stop()
            else:
                self.screen.note("Commands wait until the turn is over; /stop or Ctrl-C stops it.", "dim")
        except JaatoError as error:
            self.screen.note(str(error), "red")

    async def say(self, text: str) -> None:
        """Say something to the agent."""
        self._presses = 0
        self._said.append(text)
        files, self.files = self.files, []
        try:
            taken = await self.client.ask(MessageSend(session_id=self.session.id, text=text, files=files))
        except JaatoError as error:
            self._said.remove(text)
            self.screen.note(str(error), "red")
            return
        assert isinstance(taken, Taken)
        self._expected = max(self._expected, taken.seq)
        if taken.queued:
            self.screen.note("(the agent hears this at its next pause)", "dim")

    async def _end_of_input(self) -> None:
        if self.creation is None:
            self.leaving = True
            working = self.busy and self.keyboard.interactive
            self.screen.note("\nLeaving; the work goes on." if working else "")
        elif self.busy:
            self.questions.end()
            self.keyboard.lines.reopen()
            if self.keyboard.interactive:
                self.screen.note("Leaving after this turn; Ctrl-C stops it.", "dim")
            self._ending = True
            while self.busy:
                await self._change()
        else:
            self.leaving = True
            if self.keyboard.interactive:
                self.screen.note("")

    # --- what happens --------------------------------------------------------------------------------------------

    async def _change(self) -> None:
        """Until something has begun, ended or been asked. Raises what ended the connection for good."""
        assert self._hearing is not None
        wait = asyncio.get_running_loop().create_task(self._changed.wait())
        try:
            await asyncio.wait([wait, self._hearing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
        self._changed.clear()
        if self._hearing.done() and not self._hearing.cancelled():
            self._hearing.result()

    async def _hear(self, session: RemoteSession) -> None:
        with session.events() as events:
            async for event in events:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        before = self.busy, self.questions.current
        if isinstance(event, SessionInfo):
            self._informed(event)
        elif not event.durable or event.seq > self.told_seq:
            self._one(event)
        if before != (self.busy, self.questions.current) or self.leaving:
            self._changed.set()

    def _one(self, event: Event) -> None:
        self.told_seq = max(self.told_seq, event.seq)
        root = event.agent_id == self.session.state.root_agent_id
        if isinstance(event, MessageUser) and root:
            self._open = True
            self._heard(event)
        elif isinstance(event, AgentStatusChanged) and root and event.status == "active":
            self._open = self.session.state.open_turn is not None  # it goes on after a crash
        self._stream(event)
        self.questions(event)
        if isinstance(event, TurnCompleted):
            if root:
                self._over(event)
            else:
                self._below.append(event)

    def _heard(self, event: MessageUser) -> None:
        """A message has reached the agent: told where it was not said here."""
        text = event.message.text
        mine = next((said for said in self._said if text.startswith(said)), None)
        if mine is not None:
            self._said.remove(mine)
        elif event.message.source == "user":
            said = f"{self._somebody()}: {one_line(text, 2_000)}"
            self.keyboard.aside(said, "bold", again=False)

    def _somebody(self) -> str:
        others = [name for client, name in self._present.items() if client != self.client.welcome.client_id]
        return one_line(others[0], 80) if len(others) == 1 else "somebody else"

    def _over(self, turn: TurnCompleted) -> None:
        self._open = False
        self._presses = 0
        self.leaving = self.leaving or self._ending
        self.turns.append(turn)
        self.screen.end_text()
        match turn.reason:
            case "error" | "limit" if turn.error is not None:
                self.screen.note(turn.error.message, "red")
            case "cancelled" | "interrupted":
                self.screen.note("Stopped; what was done is kept.", "yellow")
            case "refusal" | "length":
                self.screen.note(f"The answer ended early: {turn.reason}.", "yellow")
        below, self._below = self._below, []
        self.screen.note(closing_line([turn], self.session.id, below), "dim")

    def _informed(self, info: SessionInfo) -> None:
        now = {client.id: client.name for client in info.clients}
        own = self.client.welcome.client_id
        if self.client.connected:
            for client, name in now.items():
                if client not in self._present and client != own:
                    self.keyboard.aside(f"{one_line(name, 80)} has come", "dim")
            for client, name in self._present.items():
                if client not in now and client != own:
                    self.keyboard.aside(f"{one_line(name, 80)} has left", "dim")
            self._present = now
        if info.state is not None or info.live is not None:
            self._catch_up(self.session)

    def _catch_up(self, session: RemoteSession) -> None:
        """Tell what was missed, from the state: entries, the words that are being said, questions."""
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
        if self.keyboard.interactive:
            self.questions.restore(list(state.questions.values()) if self._open else [])

    # --- the server ----------------------------------------------------------------------------------------------

    def answer(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Give the server an answer; another terminal may be faster."""
        self._later(self._answer(question_id, answer))

    async def _answer(self, question_id: str, answer: Answer | list[str | None]) -> None:
        head: dict[str, Any] = {"session_id": self.session.id, "question_id": question_id}
        command = (
            PermissionResponse(
                **head, answer=answer.answer, arguments=answer.arguments, comment=answer.comment
            )
            if isinstance(answer, Answer)
            else ClarificationResponse(**head, answers=answer)
        )
        settled: Any = await self.client.ask(command)
        if not settled.accepted and settled.answer:
            self.screen.note(f"{settled.by or 'Somebody'} has answered before: {settled.answer}", "yellow")

    def _connection(self, there: bool) -> None:
        if self.leaving:
            return
        if not there:
            self.keyboard.aside("The connection to the server is lost; trying again.", "yellow")
            return
        self.keyboard.aside("The server is there again.", "green")
        self._later(self._back())

    async def _back(self) -> None:
        """What a new connection has to be told."""
        if not self.keyboard.interactive:
            await self.client.ask(ClientConfig(answers=False))
        if self.creation is not None:
            import msgspec

            again = msgspec.structs.replace(
                self.creation, session_id=self.session.id, resume=False, name=None
            )
            await self.client.ask(again)

    def _later(self, work: Any) -> None:
        async def guarded() -> None:
            try:
                await work
            except JaatoError as error:
                self.screen.note(str(error), "red")

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- signals -------------------------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        if not hasattr(self, "session"):
            self._task.cancel()  # nothing is open yet
            return
        if not self.busy:
            self._hint()
            return
        self._presses += 1
        if self._presses >= PATIENCE:
            restore_terminal()
            os._exit(INTERRUPTED)
        self._later(self.session.stop())

    def _hint(self) -> None:
        self.screen.note("")
        self.screen.note("Ctrl-D or /exit leaves.", "dim")
        self.keyboard.again()

    def _terminated(self) -> None:
        self.code = INTERRUPTED
        if not hasattr(self, "session"):
            self._task.cancel()
            return
        self._later(self._end())

    async def _end(self) -> None:
        """Leave in order; what the command line began is stopped before."""
        if self.creation is not None and self.busy:
            self._ending = True
            await self.session.stop()
        else:
            self.leaving = True
            self._changed.set()
