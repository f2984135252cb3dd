"""One prompt at work in the server: what `jaato run` is then, without a loop and with little to import."""

from __future__ import annotations

import os
import select
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.asked import creation, file_at
from jaato.cli.ending import INTERRUPTED
from jaato.cli.options import clean_text
from jaato.cli.reach import lost
from jaato.cli.response import response_to
from jaato.cli.screen import Screen
from jaato.cli.signals import heeded, restore_terminal
from jaato.cli.telling import Telling
from jaato.client.blocking import Client
from jaato.errors import CancelledException, ServerGone
from jaato.protocol.commands import (
    ClientConfig,
    Command,
    MessageSend,
    SessionAttach,
    SessionDetach,
    SessionSettle,
    SessionStop,
    SessionUpdate,
)
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.frames import Done, Opened, Result
from jaato.protocol.ids import session_name

OPENING_S = 3_600.0
"""How long making a session may take: a model may have to be loaded first."""


class ServedRun:
    """A run from its arguments to its exit code. Ctrl-C stops the turn at the server."""

    def __init__(
        self, args: Namespace, screen: Screen, prompt: str, telling: Telling, client: Client
    ) -> None:
        self.args = args
        self.screen = screen
        self.prompt = prompt
        self.telling = telling
        self.client = client
        self.session_id = ""
        self._questions: Any = None
        self._lines: Any = None
        self._wanted = args.workspace
        self._signals = 0
        self._stopped = False

    def run(self) -> int:
        """Everything between start and exit code."""
        with self.client, self._interruptible() as wake:
            self._wake = wake
            try:
                return self._run()
            except ServerGone as error:
                raise (lost(error, self.session_id) if self.session_id else error) from None

    def _run(self) -> int:
        asks = sys.stdin.isatty() and self.screen.err_is_terminal
        whole = self.screen.whole_messages or self.args.output == "json" or self.telling.schema is not None
        deltas = self.args.output == "events" or not whole or self.args.verbose
        self.client.ask(ClientConfig(answers=asks, deltas=deltas))
        if asks:
            self._ask_here()
        local = bool(self.client.welcome.state_dir)
        files = [file_at(Path(image)) for image in self.args.image]
        self.client.on_progress = lambda event: self.screen.progress(event.step, event.done, event.total)
        opened = self.client.ask(creation(self.args, local=local, schema=self.telling.schema), OPENING_S)
        assert isinstance(opened, Opened)
        self.telling.chosen(opened.provider, opened.model, opened.reason)
        self.telling.outcome.open(opened.session_id, opened.agent_id, opened.provider, opened.model)
        self.session_id = opened.session_id
        self._noticed(opened)
        self.telling.stop = self._stop
        name = session_name(clean_text(self.args.name))
        self._wait_for(SessionAttach(session_id=self.session_id, after_seq=opened.before))
        if name and name != opened.name:
            self._noticed(self._wait_for(SessionUpdate(session_id=self.session_id, name=name)))
        try:
            data = self._converse(files)
        finally:
            self.telling.running_tasks()
            self._wait_for(SessionDetach(session_id=self.session_id))
        return self.telling.report(data, interrupted=self._signals > 0)

    def _converse(self, files: list[Any]) -> Any:
        """The turn, and with a schema more of them until the answer fits. Gives the value the answer is."""
        self.telling.outcome.began = True
        text: str | None = self.prompt
        data: Any = None
        while text is not None:
            before = len(self.telling.outcome.turns)
            self._wait_for(
                MessageSend(session_id=self.session_id, text=text, files=files, once=Client.word())
            )
            while len(self.telling.outcome.turns) == before:
                self._hear()
            if self.telling.outcome.turns[-1].reason == "stop" and self.telling.kin and not self._signals:
                self._wait_for(SessionSettle(session_id=self.session_id))
            data, text = self.telling.fitting()
            files = []
        return data

    def _noticed(self, result: Result) -> None:
        """Say what the server wants known."""
        if isinstance(result, Opened | Done) and result.notice:
            self.screen.note(result.notice, "yellow")

    # --- hearing -------------------------------------------------------------------------------------------------

    def _wait_for(self, command: Command) -> Result:
        """The result of a command, while what happens is told."""
        asked = self.client.begin(command)
        while (result := self.client.result(asked)) is None:
            self._hear()
        return result

    def _hear(self) -> None:
        """Wait until something comes: from the server, from the keyboard, or a signal; and take it."""
        if not self.client.waiting:
            self._watch()
        if self.client.waiting:
            for event in self.client.arrived():
                self._told(event)

    def _watch(self) -> None:
        awaited: list[Any] = [self.client, self._wake]
        asking = self._questions is not None and self._questions.current is not None
        if asking:
            awaited.append(self._lines.descriptor)
        ready = select.select(awaited, [], [])[0]
        if self._wake in ready:
            os.read(self._wake, 4_096)
        if self._signals and not self._stopped:
            self._stop()
        if self.client in ready:
            self.client.receive()
        if asking and self._lines.descriptor in ready:
            self._typed()

    def _told(self, event: Event) -> None:
        if isinstance(event, SessionInfo):
            self._placed(event.workspace)
            return
        self.telling(event)
        if self._questions is not None:
            self._questions(event)

    def _placed(self, workspace: str) -> None:
        """Where the session works, as the server tells now and then; said once, where it is not what was asked for."""
        wanted, self._wanted = self._wanted, None
        if wanted and os.path.realpath(wanted) != os.path.realpath(workspace):
            self.screen.note(f"this session works in {workspace}", "yellow")

    def _stop(self) -> None:
        self._stopped = True
        self.client.begin(SessionStop(session_id=self.session_id))

    # --- questions -----------------------------------------------------------------------------------------------

    def _ask_here(self) -> None:
        from jaato.cli.asking import Questions
        from jaato.cli.lines import Lines

        self._lines = Lines()
        self._questions = Questions(self, self.screen)
        self._questions.asked = self._lines.forget

    def answer(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Give the server an answer; if another client was faster, its answer is told by the event."""
        self.client.begin(response_to(self.session_id, question_id, answer))

    def _typed(self) -> None:
        goes_on = self._lines.take()
        while self._questions.current is not None and (line := self._lines.next()) is not None:
            self._questions.take(line)
        if not goes_on:
            self._questions.end()
            self._questions = None
            self.client.begin(ClientConfig(answers=False))

    # --- signals -------------------------------------------------------------------------------------------------

    @contextmanager
    def _interruptible(self) -> Iterator[int]:
        """The first signal stops the turn, the second ends the program at once."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        numbers = heeded()
        handlers = [(number, signal.signal(number, self._signalled)) for number in numbers]
        try:
            yield reading
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            os.close(reading)
            os.close(writing)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            restore_terminal()
            os._exit(INTERRUPTED)
        if not self.session_id:
            raise CancelledException("Interrupted.")
