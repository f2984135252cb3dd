"""A session of the server at the terminal: what happens in it, and what is said to it. It comes back by itself."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from jaato.cli.asking import Questions
from jaato.cli.confined import tell_sandbox
from jaato.cli.connect import own_name
from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.hearing import Hearing
from jaato.cli.joined_commands import COMMANDS, obey
from jaato.cli.keyboard import BROKEN, Keyboard
from jaato.cli.leaving import close, signalled
from jaato.cli.options import clean_text
from jaato.cli.remote_desk import RemoteDesk
from jaato.cli.screen import Screen
from jaato.cli.shown import show, show_opening
from jaato.cli.signals import heeded
from jaato.client.address import Address
from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.commands import (
    ClientConfig,
    File,
    MessageSend,
    SessionCreate,
    SessionDetach,
)
from jaato.protocol.frames import Opened, Taken
from jaato.settings import environment


class Joined:
    """A terminal at one session at a time. `creation` is what the command line says of it (`jaato chat`): it holds while
    this terminal is there, and leaving waits for the turn; without it (`jaato attach`) the work goes on."""

    def __init__(self, args: Namespace, address: Address, creation: SessionCreate | None) -> None:
        environ = environment()
        self.args = args
        self.screen = Screen(environ)
        self.keyboard = Keyboard(environ, self.screen, [f"/{name}" for name in COMMANDS])
        self.address = address
        self.creation = self.begun = creation
        self.client: Client
        self.session: RemoteSession
        self.leaving = False
        self.cut_off = False
        """Whether the terminal was closed: to the server its connection is lost, and the work goes on."""
        self.code = OK
        self._greeted = False
        self.files: list[File] = []
        """What goes with the next message."""
        self.hearing: Hearing
        self.desk: RemoteDesk

    async def run(self) -> int:
        """Join, take line after line, leave."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self.task = task
        numbers = heeded()
        for number in numbers:
            loop.add_signal_handler(number, signalled, self, number)
        try:
            async with connect(self.address, name=own_name()) as client:
                self.client, self.desk = client, RemoteDesk(client, self.screen)
                client.on_connection = self._connection
                client.on_progress = lambda told: self.screen.progress(told.step, told.done, told.total)
                if not self.keyboard.interactive:
                    await client.ask(ClientConfig(answers=False))
                await self.open(self.creation)
                first = (clean_text(" ".join(getattr(self.args, "prompt", None) or [])) or "").strip()
                if first:
                    await self.say(first)
                while not (self.leaving or self.hearing.leaving):
                    await self._next()
                await close(self)
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
            self.hearing.cut_off_told = session.state.open_turn is not None and not session.info.at_work
            self.hearing.told_seq = session.state.seq
        else:
            self.hearing.told_seq = before
            show_opening(self.screen, session.state, before)
        if session.info.sandbox is not None:
            tell_sandbox(self.screen, session.info.sandbox)
        if self.keyboard.interactive and not self._greeted:
            self.screen.note("/help lists the commands, Ctrl-D leaves.", "dim")
            self._greeted = True
        self.hearing.catch_up()

    async def change(self, creation: SessionCreate | None, named: str | None) -> None:
        """Go on in another session; where that fails, in this one. Raises `JaatoError`."""
        before, self.args.session = self.session, named or self.args.session
        await self.open(creation)
        if before.id != self.session.id:
            before.watched = False
            await self.client.ask(SessionDetach(session_id=before.id))

    def _enter(self, session: RemoteSession) -> None:
        if hasattr(self, "hearing"):
            self.hearing.stop()
        self.session, self.desk.session_id = session, session.id
        verbose = getattr(self.args, "verbose", False)
        self.hearing = Hearing(self.client, session, self.screen, self.keyboard, self.desk, verbose=verbose)

    # --- lines ---------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a turn runs, as far as it was told here."""
        return self.hearing.busy

    @property
    def questions(self) -> Questions:
        """What is asked now."""
        return self.hearing.questions

    async def _next(self) -> None:
        """Take one line, and do what it says."""
        self.hearing.changed.clear()  # what has changed so far is seen now
        if not self.keyboard.interactive:
            while self.busy:
                await self.hearing.change()
        working = self.busy or self.questions.current is not None
        typed = asyncio.get_running_loop().create_task(self.keyboard.read(working=working))
        change = asyncio.get_running_loop().create_task(self.hearing.change())
        try:
            await asyncio.wait([typed, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            if not typed.done():
                typed.cancel()
            await asyncio.wait([typed, change])
        if not change.cancelled() and change.exception() is not None:
            change.result()
        if self.leaving or self.hearing.leaving or typed.cancelled():
            return
        line = typed.result()
        if line == BROKEN:
            self.hint()
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
        self.hearing.presses = 0
        self.hearing.said.append(text)
        files, self.files = self.files, []
        try:
            taken = await self.client.ask(MessageSend(session_id=self.session.id, text=text, files=files))
        except JaatoError as error:
            self.hearing.said.remove(text)
            self.screen.note(str(error), "red")
            self.code = self.code if self.keyboard.interactive else error.exit_code
            return
        assert isinstance(taken, Taken)
        self.hearing.expected = max(self.hearing.expected, taken.seq)
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
            self.hearing.ending = True
            while not self.leaving and self.busy:
                await self.hearing.change()
        else:
            self.leaving = True
            if self.keyboard.interactive:
                self.screen.note("")

    # --- the server ----------------------------------------------------------------------------------------------

    def _connection(self, there: bool) -> None:
        if self.leaving:
            return
        if not there:
            self.keyboard.aside("The connection to the server is lost; trying again.", "yellow")
            return
        self.keyboard.aside("The server is there again.", "green")
        self.desk.later(self._back())

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

    def hint(self) -> None:
        """Say how to leave."""
        self.screen.note("")
        self.screen.note("Ctrl-D or /exit leaves.", "dim")
        self.keyboard.again()
