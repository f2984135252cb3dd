"""`jaato chat`: a conversation at the terminal."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from jaato.agent.session import Session
from jaato.cli.asking import Questions, attend, confirm
from jaato.cli.commands import COMMANDS, obey, restore, tell_namesakes
from jaato.cli.confined import tell_sandbox
from jaato.cli.editor import Editor
from jaato.cli.ending import INTERRUPTED, OK
from jaato.cli.keyboard import Keyboard
from jaato.cli.kin import Kin
from jaato.cli.lines import Lines
from jaato.cli.narrate import Narrator, tell_end
from jaato.cli.options import blueprint_of, clean_text
from jaato.cli.screen import Screen
from jaato.cli.signals import heeded, restore_terminal
from jaato.errors import JaatoError
from jaato.protocol.events import Event, TurnCompleted
from jaato.protocol.messages import Media
from jaato.runtime.assemble import assemble
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.choose import Choice
from jaato.runtime.modes import find_backend, sandbox_view
from jaato.settings import environment, user_dir

PATIENCE = 3
"""How often Ctrl-C must be pressed in one turn until the program itself ends."""


def main(args: Namespace) -> int:
    """Talk until the user leaves, in the server or in this process."""
    from jaato.cli.connect import open_server

    client = open_server(args, Screen(environment()))
    if client is not None:
        from jaato.cli.asked import creation
        from jaato.cli.joined import Joined

        client.close()
        made, address = creation(args, client), client.transport.address  # type: ignore[attr-defined]
        return asyncio.run(Joined(args, address, made).run())
    return anyio.run(Chat(args).run)


class Chat:
    """The conversation: one session at a time, the screen and the keyboard. `open` changes to another session."""

    def __init__(self, args: Namespace) -> None:
        environ = environment()
        self.screen = Screen(environ)
        self.lines = Lines()
        history = user_dir(environ, "XDG_STATE_HOME", ".local/state") / "chat_history"
        self.editor = Editor(environ, self.screen, self.lines, history, [f"/{name}" for name in COMMANDS])
        self.args = args
        self.session: Session
        self.turns: list[TurnCompleted] = []
        self.below: list[TurnCompleted] = []
        """The turns of subagents since the last turn of the agent ended."""
        self.leaving = False
        self.code = OK
        self._blueprint: Blueprint
        self._close: Callable[[], Awaitable[None]] | None = None
        self._questions: Questions
        self._idle: anyio.CancelScope | None = None
        self._presses = 0
        self._task: asyncio.Task[Any] | None = None
        self._begun: list[str] = []
        """The lines of a message that goes on: each ended with a backslash."""
        self.images: list[Media] = []
        """What goes with the next message."""

    async def run(self) -> int:
        """Open the session, then take line after line."""
        loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        numbers = heeded()
        for number in numbers:
            loop.add_signal_handler(
                number, self._interrupted if number == signal.SIGINT else self._terminated
            )
        self._blueprint = blueprint_of(
            self.args,
            chosen=self._chosen,
            progress=self.screen.progress,
            confirm=(lambda text: confirm(self.screen, text)) if self.editor.interactive else None,
        )
        try:
            await self._start(self._blueprint)
            tell_namesakes(self, clean_text(self.args.name))
            if self.editor.interactive:
                self.screen.note("/help lists the commands, Ctrl-D leaves.", "dim")
            first = (clean_text(" ".join(self.args.prompt)) or "").strip()
            if first:
                await self._turn(first)
            while not self.leaving:
                await self._next()
        except asyncio.CancelledError:
            self.code = INTERRUPTED
        finally:
            await self._end()
            for number in numbers:
                loop.remove_signal_handler(number)
        return self.code

    # --- sessions ----------------------------------------------------------------------------------------------

    async def open(self, **changes: Any) -> bool:
        """Go on with another session, or the same one with another model; where that fails, with the one before."""
        before = self.session.state.session_id
        wanted = dataclasses.replace(self._blueprint, **changes)
        await self._end()
        try:
            await self._start(wanted)
        except JaatoError as error:
            self.screen.note(str(error), "red")
            state = self.session.state
            back = dataclasses.replace(self._blueprint, session=before, resume=False)
            back = dataclasses.replace(back, provider=state.provider, model=state.model)
            await self._start(back)
            return False
        return True

    async def _start(self, blueprint: Blueprint) -> None:
        session, close = await assemble(blueprint)
        self.session, self._close = session, close
        self._blueprint = dataclasses.replace(
            blueprint, session=session.state.session_id, resume=False, name=None
        )
        self.turns, self.below = [], []
        kin = Kin()
        restore(kin, session)
        self._questions = Questions(session.desk, self.screen, kin)
        narrator = Narrator(self.screen, verbose=self.args.verbose, plan=True, kin=kin)
        session.journal.bus.listen(narrator)
        session.journal.bus.listen(self._below)
        if self.editor.interactive:
            attend(session, self._questions)
        state = session.state
        if session.journal.loaded_seq:
            for event in session.journal.store.read(state.session_id, session.journal.loaded_seq):
                if isinstance(event, Event):
                    narrator(event)
            name = f" {state.name}" if state.name else ""
            self.screen.note(
                f"session {state.session_id}{name}, {state.turns} turn{'' if state.turns == 1 else 's'} so far",
                "dim",
            )
        else:
            self.screen.note(f"session {state.session_id} in {state.workspace}", "dim")
        await find_backend(session)
        tell_sandbox(self.screen, sandbox_view(session))

    def _below(self, event: Event) -> None:
        """Keep what a subagent's turn has used for the next closing line."""
        if isinstance(event, TurnCompleted) and event.agent_id != self.session.state.agent_id:
            self.below.append(event)

    async def _end(self) -> None:
        close, self._close = self._close, None
        if close is None:
            return
        for task in self.session.tasks.running():
            self.screen.note(
                f"background task {task.id} ({task.tool}) still runs and is stopped now", "yellow"
            )
            task.cancel()
        for child in self.session.supervisor.working():
            self.screen.note(f"the subagent {child.name} still works and is stopped now", "yellow")
        await close()

    def _chosen(self, choice: Choice, model: str) -> None:
        self.screen.note(f"{choice.name} {model} ({choice.reason})", "dim")

    # --- lines -------------------------------------------------------------------------------------------------

    async def _next(self) -> None:
        """Take one line, and do what it says."""
        line: str | None = None
        try:
            with anyio.CancelScope() as self._idle:
                beside = self.session.tasks.running() or self.session.supervisor.working()
                line = await self.editor.read(alone=not beside)
        except KeyboardInterrupt:
            self._begun = []
            self._hint()
            return
        finally:
            self._idle = None
        if self.leaving:
            return
        if line is None:
            self.leaving = True
            if self.editor.interactive:
                self.screen.note("")
            return
        if self._questions.current is not None:  # a subagent in the background asks
            self._questions.take(line)
            return
        if line.endswith("\\"):
            self._begun.append(line[:-1])
            return
        text = (clean_text("\n".join([*self._begun, line])) or "").strip()
        self._begun = []
        if Keyboard.is_command(text):
            await obey(self, text[1:])
        elif text:
            await self._turn(text)

    async def _turn(self, text: str) -> None:
        """One turn, during which what is typed answers questions or waits for the agent."""
        self._presses = 0
        turn: TurnCompleted | None = None
        try:
            async with anyio.create_task_group() as group:
                if self.editor.interactive:
                    group.start_soon(self._typed)
                images, self.images = self.images, []
                turn = await self.session.post(text, images)
                group.cancel_scope.cancel()
        except* JaatoError as errors:
            for error in errors.exceptions:
                self.screen.note(str(error), "red")
        self.screen.end_text()
        if turn is None:
            return
        self.turns.append(turn)
        below, self.below = self.below, []
        tell_end(self.screen, turn, self.session.state.session_id, below)

    async def _typed(self) -> None:
        """What is typed while a turn runs."""
        while True:
            line = await self.lines.read()
            if line is None:
                self._questions.end()
                self.lines.reopen()
                self.leaving = True
                self.screen.note("Leaving after this turn; Ctrl-C stops it.", "dim")
                return
            if self._questions.current is not None:
                self._questions.take(line)
            elif line.strip() == "/stop":
                self.session.stop()
            elif line.strip().startswith("/"):
                self.screen.note("Commands wait until the turn is over; /stop or Ctrl-C stops it.", "dim")
            elif line.strip():
                await self.session.post(clean_text(line) or "")
                self.screen.note("(the agent hears this at its next pause)", "dim")

    # --- signals -----------------------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        if self._close is None and self._task is not None:
            self._task.cancel()  # nothing is open yet: a download or a look for a provider
            return
        if not self.session_is_busy:
            if self.session.supervisor.working():
                self.screen.note("Subagents are stopped; what was done is kept.", "yellow")
                self.session.stop()
            self._hint()
            return
        self._presses += 1
        if self._presses >= PATIENCE:
            restore_terminal()
            os._exit(INTERRUPTED)
        self.session.stop()

    @property
    def session_is_busy(self) -> bool:
        """Whether a turn runs."""
        return self._close is not None and self.session.is_busy

    def _hint(self) -> None:
        self.screen.note("")
        self.screen.note("Ctrl-D or /exit leaves.", "dim")
        if self._idle is not None and self.editor.kind == "plain":
            self.screen.prompt("> ")

    def _terminated(self) -> None:
        self.leaving, self.code = True, INTERRUPTED
        if self.session_is_busy:
            self.session.stop()
        if self._idle is not None:
            self._idle.cancel()
