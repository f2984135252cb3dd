"""The terminal at a session: lines from the user, commands, signals. The same at a server and at a hub in this process."""

from __future__ import annotations

import asyncio
import os
import signal
from argparse import Namespace
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import clean_text
from jaato.cli.create_command import response_to
from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.output.renderers import tell_sandbox
from jaato.cli.output.terminal import Screen, one_line
from jaato.cli.output.transcript import show, show_opening
from jaato.cli.repl.editor import BROKEN, Keyboard
from jaato.cli.repl.session_output import SessionOutput
from jaato.cli.repl.slash_commands import COMMANDS, CommandContext, run_slash_command
from jaato.cli.signals import heeded, restore_terminal
from jaato.client.connection import Client
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.commands import ClientConfig, File, MessageSend, SessionCreate, SessionDetach
from jaato.protocol.events import InitProgress
from jaato.protocol.frames import Opened, Settled, Taken
from jaato.settings import environment

PATIENCE = 3
"""How often Ctrl-C must be pressed in one turn until the program itself ends."""
LEAVE_S = 5.0
"""How long a server that has joined nobody may take to let a terminal go."""


class Repl:
    """A terminal at one session at a time. `creation` is what the command line says of it (`jaato chat`): it holds while
    this terminal is there, and leaving waits for the turn; without it (`jaato attach`) the work goes on."""

    def __init__(
        self,
        args: Namespace,
        screen: Screen,
        connection: AbstractAsyncContextManager[Client],
        creation: SessionCreate | None,
    ) -> None:
        self.args = args
        self.screen = screen
        self.keyboard = Keyboard(environment(), screen, [f"/{name}" for name in COMMANDS])
        self.creation = self.first_creation = creation
        self.client: Client
        self.session: RemoteSession
        self.output: SessionOutput
        self.attachments: list[File] = []
        """What goes with the next message."""
        self.leaving = False
        self.code = OK
        self._connection = connection
        self._task: asyncio.Task[Any]
        self._tasks: set[asyncio.Task[None]] = set()
        self._hung_up = False
        """Whether the terminal was closed: to a server its connection is lost, and the work goes on."""
        self._greeted = False

    async def run(self) -> int:
        """Join, take line after line, leave."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        numbers = heeded()
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            async with self._connection as self.client:
                self.client.on_connection = self._connected
                self.client.on_progress = self._progress
                if not self.keyboard.interactive:
                    await self.client.ask(ClientConfig(answers=False))
                await self.open(self.creation)
                first = (clean_text(" ".join(getattr(self.args, "prompt", None) or [])) or "").strip()
                if first:
                    await self._send_message(first)
                while not (self.leaving or self.output.leaving):
                    await self._next()
                await self._detach()
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
            if opened.notice:
                self.screen.note(opened.notice, "yellow")
            session = await self.client.attach(opened.session_id)
            before = opened.before
            self.creation = creation
        self._enter(session)
        assert session.info is not None
        if creation is None:
            show(self.screen, session.state, session.info)
            self.output.cut_off_told = session.state.open_turn is not None and not session.info.at_work
            self.output.told_seq = session.state.seq
        else:
            self.output.told_seq = before
            show_opening(self.screen, session.state, before)
        if session.info.sandbox is not None:
            tell_sandbox(self.screen, session.info.sandbox)
        if self.keyboard.interactive and not self._greeted:
            self.screen.note("/help lists the commands, Ctrl-D leaves.", "dim")
            self._greeted = True
        self.output.catch_up()

    async def open_session(self, creation: SessionCreate | None, named: str | None) -> None:
        """Go on in another session; where that fails, in this one. Raises `JaatoError`."""
        before, self.args.session = self.session, named or self.args.session
        await self.open(creation)
        if before.id != self.session.id:
            before.watched = False
            await self.client.ask(SessionDetach(session_id=before.id))

    def _enter(self, session: RemoteSession) -> None:
        if hasattr(self, "output"):
            self.output.stop()
        self.session = session
        verbose = getattr(self.args, "verbose", False)
        self.output = SessionOutput(self.client, session, self.screen, self.keyboard, self, verbose=verbose)

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Give the server an answer; another terminal may be faster."""
        self._start(self._answer(question_id, answer))

    async def _answer(self, question_id: str, answer: Answer | list[str | None]) -> None:
        settled = await self.client.ask(response_to(self.session.id, question_id, answer))
        if isinstance(settled, Settled) and not settled.accepted and settled.answer:
            who = one_line(settled.by, 80) or "Somebody"
            self.screen.note(f"{who} has answered before: {one_line(settled.answer, 300)}", "yellow")

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something without waiting for it; what fails is said."""

        async def guarded() -> None:
            try:
                await work
            except JaatoError as error:
                self.screen.note(str(error), "red")

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- lines ---------------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        """Take one line, and do what it says."""
        output = self.output
        output.changed.clear()  # what has changed so far is seen now
        if not self.keyboard.interactive:
            while output.busy:
                await output.change()
        working = output.busy or output.questions.current is not None
        alone = self.client.in_process and not self._works_beside()
        create = asyncio.get_running_loop().create_task
        change = create(output.change())
        typed = create(self.keyboard.read(working=working, alone=alone))
        try:
            await asyncio.wait([typed, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            if not typed.done():
                typed.cancel()
            await asyncio.wait([typed, change])
        if not change.cancelled() and change.exception() is not None:
            change.result()
        if self.leaving or output.leaving or typed.cancelled():
            return
        line = typed.result()
        if line == BROKEN:
            self.hint()
        else:
            await self._take(line, working=working)

    def _works_beside(self) -> bool:
        """Whether background tasks or subagents work."""
        return bool(self.session.state.tasks) or bool(self._subagents())

    def _subagents(self) -> list[str]:
        """The names of the subagents that work."""
        return [agent.name for agent in self.session.state.agents.values() if agent.working]

    async def _take(self, line: str | None, *, working: bool) -> None:
        if line is None:
            await self._end_of_input()
            return
        if self.output.questions.current is not None:
            self.output.questions.take(line)
            return
        text = self.keyboard.whole(line)
        if text is None:
            return
        try:
            if not self.keyboard.is_command(text):
                if text:
                    await self._send_message(text)
            elif not working:
                await run_slash_command(self._command_context(), text[1:])
            elif text == "/stop":
                await self.session.stop()
            else:
                self.screen.note("Commands wait until the turn is over; /stop or Ctrl-C stops it.", "dim")
        except JaatoError as error:
            self.screen.note(str(error), "red")

    def _command_context(self) -> CommandContext:
        return CommandContext(
            client=self.client,
            session=self.session,
            screen=self.screen,
            output=self.output,
            creation=self.creation,
            first_creation=self.first_creation,
            attachments=self.attachments,
            set_creation=self._set_creation,
            open_session=self.open_session,
            leave=self._leave,
        )

    def _set_creation(self, creation: SessionCreate) -> None:
        self.creation = creation

    async def _send_message(self, text: str) -> None:
        self.output.presses = 0
        self.output.said.append(text)
        files, self.attachments = self.attachments, []
        try:
            taken = await self.client.ask(MessageSend(session_id=self.session.id, text=text, files=files))
        except JaatoError as error:
            self.output.said.remove(text)
            self.screen.note(str(error), "red")
            self.code = self.code if self.keyboard.interactive else error.exit_code
            return
        assert isinstance(taken, Taken)
        self.output.expected = max(self.output.expected, taken.seq)
        if taken.queued:
            self.screen.note("(the agent hears this at its next pause)", "dim")

    async def _end_of_input(self) -> None:
        output = self.output
        if self.creation is None:
            self.leaving = True
            working = output.busy and self.keyboard.interactive
            self.screen.note("\nLeaving; the work goes on." if working else "")
        elif output.busy:
            output.questions.end()
            self.keyboard.lines.reopen()
            if self.keyboard.interactive:
                self.screen.note("Leaving after this turn; Ctrl-C stops it.", "dim")
            output.ending = True
            while not self.leaving and output.busy:
                await output.change()
        else:
            self.leaving = True
            if self.keyboard.interactive:
                self.screen.note("")

    def hint(self) -> None:
        """Say how to leave."""
        self.screen.note("")
        self.screen.note("Ctrl-D or /exit leaves.", "dim")
        self.keyboard.again()

    # --- leaving -------------------------------------------------------------------------------------------------

    def _signalled(self, number: int) -> None:
        """Ctrl-C stops the turn, SIGTERM what this terminal has begun; to a server a closed terminal is a lost connection."""
        if number != signal.SIGINT:
            self.code = INTERRUPTED
        if not hasattr(self, "session"):
            self._task.cancel()  # nothing is open yet
        elif number == signal.SIGINT:
            self._interrupt()
        elif number == signal.SIGHUP and not self.client.in_process:
            self._hung_up = True
            self._leave()
        else:
            self._start(self._terminate())

    def _leave(self) -> None:
        self.leaving = True
        self.output.changed.set()

    def _interrupt(self) -> None:
        """Stop the turn; who presses again and again ends the program."""
        if not self.output.busy:
            if self.creation is not None and self._subagents():
                self.screen.note("Subagents are stopped; what was done is kept.", "yellow")
                self._start(self.session.stop())
            self.hint()
            return
        self.output.presses += 1
        if self.output.presses >= PATIENCE:
            restore_terminal()
            os._exit(INTERRUPTED)
        self._start(self.session.stop())

    async def _terminate(self) -> None:
        """Leave in order; what the command line began is stopped before."""
        if self.creation is not None and self.output.busy:
            self.output.ending = True
            await self.session.stop()
        else:
            self._leave()

    async def _detach(self) -> None:
        """Leave the session: what the command line said of it holds no more. A closed terminal says nothing any more."""
        self.output.stop()
        if self._hung_up:
            return
        if self.creation is not None:
            for task in self.session.state.tasks.values():
                text = f"background task {task.task_id} ({task.tool}) still runs and is stopped now"
                self.screen.note(text, "yellow")
            for name in self._subagents():
                self.screen.note(f"the subagent {name} still works and is stopped now", "yellow")
        self.session.watched = False
        try:
            async with asyncio.timeout(None if self.creation is not None else LEAVE_S):
                await self.client.ask(SessionDetach(session_id=self.session.id))
        except (JaatoError, TimeoutError):
            pass  # the server is away, and forgets this terminal by itself

    # --- the server ----------------------------------------------------------------------------------------------

    def _progress(self, told: InitProgress) -> None:
        self.screen.progress(told.step, told.done, told.total)

    def _connected(self, there: bool) -> None:
        if self.leaving:
            return
        if not there:
            self.keyboard.aside("The connection to the server is lost; trying again.", "yellow")
            return
        self.keyboard.aside("The server is there again.", "green")
        self._start(self._resume())

    async def _resume(self) -> None:
        """What a new connection has to be told."""
        if not self.keyboard.interactive:
            await self.client.ask(ClientConfig(answers=False))
        if self.creation is not None:
            again = msgspec.structs.replace(
                self.creation, session_id=self.session.id, resume=False, name=None
            )
            await self.client.ask(again)
