"""The REPL: reads lines, sends messages and runs commands in a session at a server or in this process."""

from __future__ import annotations

import asyncio
import os
import signal
from argparse import Namespace
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import Attachment, clean_text, is_command
from jaato.cli.exit_codes import INTERRUPTED, OK
from jaato.cli.output.answers import late_answer_text
from jaato.cli.output.console import Console, one_line
from jaato.cli.output.printer import print_sandbox
from jaato.cli.output.transcript import print_opening, print_state
from jaato.cli.repl.editor import INTERRUPT, NO_INPUT, Keyboard, get_typed_text
from jaato.cli.repl.questions import answer_command
from jaato.cli.repl.session_output import SessionOutput
from jaato.cli.repl.slash_commands import ALIASES, COMMANDS, run_slash_command
from jaato.cli.signals import flush_streams, get_handled_signals
from jaato.client.connection import Client
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError, ServerGone
from jaato.protocol.commands import (
    ClientConfig,
    File,
    MessageSend,
    SessionCreate,
    SessionDetach,
)
from jaato.protocol.events import InitProgress
from jaato.protocol.frames import Opened, Settled, Taken

WAITS = "(sent once there is a connection again; Ctrl-C drops it)"
DROPPED = "(dropped; if the connection was lost after you sent it, it may have arrived)"
MAX_INTERRUPTS = 3
"""How often Ctrl-C is pressed in one turn until the program exits."""
DETACH_TIMEOUT_S = 5.0
"""How long to wait for the server to detach a client that was only attached."""


class Repl:
    """The REPL of a terminal, in one session at a time.

    With `creation` (`jaato chat`) the session is created or resumed with the command line's options, and leaving waits for the
    turn; without it (`jaato attach`) the turn continues.
    """

    def __init__(
        self,
        args: Namespace,
        console: Console,
        connection: AbstractAsyncContextManager[Client],
        creation: SessionCreate | None,
        environ: Mapping[str, str],
    ) -> None:
        self.args = args
        self.console = console
        self.keyboard = Keyboard(environ, console, [f"/{name}" for name in COMMANDS])
        self.creation = self.first_creation = creation
        self.client: Client
        self.session: RemoteSession
        self.output: SessionOutput
        self.attachments: list[File] = []
        self._leaving = False
        self._code = OK
        self._connection = connection
        self._task: asyncio.Task[Any]
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: asyncio.Task[Any] | None = None
        """Sends the newest message."""
        self._typed: list[str] = []
        """Lines that were typed before a question."""
        self._begun = ""
        """The beginning of a line, typed before a question."""
        self._hung_up = False
        """Whether the terminal was closed, which disconnects from a server without detaching."""
        self._greeted = False

    async def run(self) -> int:
        """Open the session, read lines until the user leaves, and detach."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        numbers = get_handled_signals()
        for number in numbers:
            loop.add_signal_handler(number, self._handle_signal, number)
        try:
            async with self._connection as self.client:
                self.client.on_connection = self._connection_changed
                self.client.on_progress = self._show_progress
                await self._configure()
                await self._open(self.creation)
                first = (clean_text(" ".join(getattr(self.args, "prompt", None) or [])) or "").strip()
                if first:
                    await self._send_or_run(first, working=False)
                while not (self._leaving or self.output.leaving):
                    await self._next()
                await self._detach()
        except asyncio.CancelledError:
            self._code = INTERRUPTED
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
        return self._code

    # --- sessions ------------------------------------------------------------------------------------------------

    async def _configure(self) -> None:
        """Tell the server whether this client answers questions."""
        if not self.keyboard.interactive:
            await self.client.ask(ClientConfig(answers=False))

    async def _open(self, creation: SessionCreate | None) -> None:
        """Create, resume or attach to a session. Raises `JaatoError`, and stays in the current one."""
        resumed_at = 0
        if creation is None:
            session = await self.client.attach(self.args.session)
        else:
            opened = await self.client.ask(creation)
            assert isinstance(opened, Opened)
            self.console.note(f"{opened.provider} {opened.model} ({opened.reason})", "dim")
            if opened.notice:
                self.console.note(opened.notice, "yellow")
            session = await self.client.attach(opened.session_id)
            resumed_at = opened.before
            self.creation = creation
        if hasattr(self, "output"):
            self.output.stop()
        self.session = session
        verbose = getattr(self.args, "verbose", False)
        self.output = SessionOutput(self.client, session, self.console, self.keyboard, self, verbose=verbose)
        self.output.questions.on_question = self.keep_typed
        assert session.info is not None
        if creation is None:
            print_state(self.console, session.state, session.info)
            self.output.interruption_printed = (
                session.state.open_turn is not None and not session.info.at_work
            )
            self.output.printed_seq = session.state.seq
        else:
            self.output.printed_seq = resumed_at
            print_opening(self.console, session.state, resumed_at)
        if session.info.sandbox is not None:
            print_sandbox(self.console, session.info.sandbox)
        if self.keyboard.interactive and not self._greeted:
            self.console.note("/help lists the commands, Ctrl-D leaves.", "dim")
            self._greeted = True
        self.output.catch_up()

    async def open_session(self, creation: SessionCreate | None, session_id: str | None) -> None:
        """Switch to another session. Raises `JaatoError`, and stays in the current one."""
        before, self.args.session = self.session, session_id or self.args.session
        await self._open(creation)
        if before.id != self.session.id:
            before.watched = False
            await self.client.ask(SessionDetach(session_id=before.id))

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Send an answer; another client may have answered before."""
        self._start(self._respond(question_id, answer))

    async def _respond(self, question_id: str, answer: Answer | list[str | None]) -> None:
        try:
            settled = await self.client.ask(answer_command(self.session.id, question_id, answer))
        except JaatoError as error:
            self.output.questions.refuse(question_id, error)
            return
        if isinstance(settled, Settled) and not settled.accepted and settled.answer:
            self.console.note(late_answer_text(settled.by, settled.answer), "yellow")

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something in the background, and print its failure."""

        async def run() -> None:
            try:
                await work
            except JaatoError as error:
                self.console.note(str(error), "red")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- lines ---------------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        """Read one line and handle it, or return when the session's activity changes."""
        output = self.output
        output.changed.clear()
        if self._typed:
            await self._handle_message(self._typed.pop(0), working=output.busy)
            output.questions.redraw()
            return
        asked = output.questions.current
        if not self.keyboard.interactive:
            while output.busy:
                await output.wait_for_change()
        working = output.busy or asked is not None
        alone = self.client.in_process and not (self.session.state.tasks or self._working_subagents())
        create = asyncio.get_running_loop().create_task
        change = create(output.wait_for_change())
        read = create(self.keyboard.read(working=working, alone=alone))
        try:
            await asyncio.wait([read, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            if not read.done():
                read.cancel()
            await asyncio.wait([read, change])
        if not change.cancelled() and change.exception() is not None:
            change.result()
        if self._leaving or output.leaving or read.cancelled():
            return
        line = read.result()
        if line == INTERRUPT:
            self._print_hint()
        elif line is None:
            await self.end_input()
        elif output.questions.current is not None:
            await self._answer(line, typed_before=output.questions.current is not asked)
        else:
            await self._handle_message(line, working=working)

    def _working_subagents(self) -> list[str]:
        """The names of the subagents that are working."""
        return [agent.name for agent in self.session.state.agents.values() if agent.working]

    def keep_typed(self) -> None:
        """Keep what was typed before a question as messages, so that it does not become an answer."""
        lines, begun = self.keyboard.reader.take_typed()
        self._typed += lines
        self._begun += begun
        if self._begun:
            note = f"(unfinished: {one_line(self._begun, 60)!r}. Enter sends it as a message; then answer.)"
            self.console.note(note, "dim")

    async def _answer(self, line: str, *, typed_before: bool) -> None:
        """Use a line as the answer to a question; a command is run, and what is no answer is sent as a message."""
        questions = self.output.questions
        word = line.strip().partition(" ")[0]
        if typed_before:
            self._typed.append(line)
        elif not self._begun and (word[1:] in COMMANDS or word[1:] in ALIASES) and word[:1] == "/" != word:
            self.console.end_prompt()
            await self._handle_message(line, working=self.output.busy)
        else:
            begun, self._begun = self._begun, ""
            if text := questions.take_line(self.keyboard.reader, line, begun):
                await self._handle_message(text, working=True)
                self.console.note("(sent as a message, which is no answer)", "dim")
            else:
                return
        questions.redraw()

    async def _handle_message(self, line: str, *, working: bool) -> None:
        """Send a line as a message, or run it as a command."""
        begun, self._begun = self._begun, ""
        line = get_typed_text(begun + line) if self.keyboard.interactive else line
        if line == NO_INPUT:
            return
        if text := self.keyboard.join(line):
            await self._send_or_run(text, working=working)

    async def _send_or_run(self, text: str, *, working: bool) -> None:
        """Send a text as a message, or run it as a command."""
        try:
            if not is_command(text):
                await self._send_message(text)
            elif not await run_slash_command(self, text[1:], working=working):
                await self._send_message(text, check_prompt=True)
        except JaatoError as error:
            self.console.note(str(error), "red")

    async def _send_message(self, text: str, *, check_prompt: bool = False) -> None:
        self.output.interrupts = 0
        self.output.sent.append(text)
        files, self.attachments = self.attachments, []
        if not self.client.connected:
            self.console.note(WAITS, "dim")
        try:
            message = MessageSend(
                session_id=self.session.id, text=text, files=files, check_prompt=check_prompt
            )
            self._sending = asyncio.get_running_loop().create_task(self.client.ask(message))
            try:
                await asyncio.wait([self._sending])
            finally:
                self._sending.cancel()  # without effect on one that is done
            if self._sending.cancelled():
                raise ServerGone(DROPPED)
            taken = self._sending.result()
        except JaatoError as error:
            self.output.sent.remove(text)
            self.attachments = files
            self.console.note(str(error), "red")
            self._code = self._code if self.keyboard.interactive else error.exit_code
            return
        assert isinstance(taken, Taken)
        self.output.expected_seq = max(self.output.expected_seq, taken.seq)
        if taken.queued:
            self.console.note("(queued until the agent's next pause)", "dim")

    def attach(self, attachment: Attachment) -> None:
        """Attach a file to the next message."""
        self.attachments.append(attachment.file)

    async def end_input(self) -> None:
        """Leave at the end of input: with `creation` after the turn, else at once."""
        output, interactive = self.output, self.keyboard.interactive
        if self.creation is None:
            self._leaving = True
            self.console.note("\nDetached; the turn continues." if output.busy and interactive else "")
        elif output.busy:
            output.questions.end()
            self.keyboard.reader.reopen()
            if interactive:
                self.console.note("Leaving after this turn; Ctrl-C interrupts it.", "dim")
            output.exit_after_turn = True
            while not self._leaving and output.busy:
                await output.wait_for_change()
        else:
            self._leaving = True
            if interactive:
                self.console.note("")

    def _print_hint(self) -> None:
        self.console.note("")
        self.console.note("Ctrl-D or /exit leaves.", "dim")
        self.keyboard.show_prompt()

    # --- leaving -------------------------------------------------------------------------------------------------

    def _handle_signal(self, number: int) -> None:
        """Ctrl-C interrupts the turn; SIGTERM leaves; SIGHUP disconnects from a server, and leaves otherwise."""
        if number != signal.SIGINT:
            self._code = INTERRUPTED
        if not hasattr(self, "session"):
            self._task.cancel()  # nothing is open yet
        elif number == signal.SIGINT:
            self._interrupt()
        elif number == signal.SIGHUP and not self.client.in_process:
            self._hung_up = True
            self.leave()
        else:
            self._start(self._terminate())

    def leave(self) -> None:
        """Leave the REPL."""
        self._leaving = True
        self.output.changed.set()

    def _interrupt(self) -> None:
        """Drop a message that waits for the connection, else interrupt the turn; repeated interrupts exit the program."""
        if self._sending is not None and not self._sending.done() and not self.client.connected:
            self._sending.cancel()
            return
        if not self.output.busy:
            if self.creation is not None and self._working_subagents():
                self.console.note("Subagents are stopped; completed work is kept.", "yellow")
                self._start(self.session.stop())
            self._print_hint()
            return
        self.output.interrupts += 1
        if self.output.interrupts >= MAX_INTERRUPTS:
            flush_streams()
            os._exit(INTERRUPTED)
        self._start(self.session.stop())

    async def _terminate(self) -> None:
        """Leave, with `creation` after interrupting the turn."""
        if self.creation is not None and self.output.busy:
            self.output.exit_after_turn = True
            await self.session.stop()
        else:
            self.leave()

    async def _detach(self) -> None:
        """Detach from the session, unless the terminal was closed."""
        self.output.stop()
        if self._hung_up:
            return
        if self.creation is not None:
            for task in self.session.state.tasks.values():
                text = f"background task {task.task_id} ({task.tool}) is still running and is stopped now"
                self.console.note(text, "yellow")
            for name in self._working_subagents():
                self.console.note(f"the subagent {name} is still working and is stopped now", "yellow")
        self.session.watched = False
        try:
            async with asyncio.timeout(None if self.creation is not None else DETACH_TIMEOUT_S):
                await self.client.ask(SessionDetach(session_id=self.session.id))
        except (JaatoError, TimeoutError):
            pass  # without a connection the server detaches this client by itself

    # --- the server ----------------------------------------------------------------------------------------------

    def _show_progress(self, event: InitProgress) -> None:
        self.console.progress(event.step, event.done, event.total, event.unit)

    def _connection_changed(self, connected: bool) -> None:
        if self._leaving:
            return
        if not connected:
            self.keyboard.note("Lost the connection to the server; reconnecting.", "yellow")
            self._start(self._resume())
        else:
            self.keyboard.note("Reconnected.", "green")

    async def _resume(self) -> None:
        """Resume the session with the options of this client, and configure it, once it is connected again."""
        if self.creation is not None:
            await self.client.resume(self.session, self.creation)
        await self._configure()
