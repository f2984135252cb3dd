"""The line editor of the prompt: editing, history and completion where the terminal can, lines that go on, commands."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from jaato.cli.arguments.values import clean_text
from jaato.cli.output.terminal import Look, Screen
from jaato.cli.repl.terminal_input import Lines
from jaato.cli.signals import heeded
from jaato.settings import user_dir

PROMPT = "> "
SIGNAL_S = 0.02
"""Time for the loop to hear of a signal that came while it stood still."""
AGAIN_S = 0.01
"""How often a signal is sent again that readline has not taken."""
MAX_HISTORY_BYTES = 1_000_000


class Editor:
    """Reads one message at a time. `read` gives None at the end of input; Ctrl-C ends it with KeyboardInterrupt or an empty line.

    On a terminal: prompt_toolkit if it is installed, else readline, else what the terminal itself can do.
    """

    def __init__(
        self, environ: Mapping[str, str], screen: Screen, lines: Lines, history: Path, commands: Sequence[str]
    ) -> None:
        self._screen = screen
        self._lines = lines
        self._history = history
        self.commands = commands
        self.interactive = sys.stdin.isatty()
        able = self.interactive and screen.out_is_terminal and environ.get("TERM", "") not in ("", "dumb")
        self.kind = "plain"
        if able and importlib.util.find_spec("prompt_toolkit") is not None:
            self.kind = "prompt_toolkit"
        elif able and importlib.util.find_spec("readline") is not None:
            self.kind = "readline"
        self._session: Any = None

    async def read(self, *, alone: bool) -> str | None:
        """The next message. `alone` says that nothing else needs the loop meanwhile."""
        if self._lines.pending or self.kind == "plain" or (self.kind == "readline" and not alone):
            if self.interactive:
                self._screen.prompt(PROMPT)
            return await self._lines.read()
        if self.kind == "readline":
            try:
                return self._read_readline()
            except KeyboardInterrupt:
                await anyio.sleep(SIGNAL_S)
                return ""
        return await self._read_toolkit()

    def _read_readline(self) -> str | None:
        """One line with readline. Nothing else runs now, so the loop may wait."""
        import readline

        if self._session is None:
            self._session = self._prepare()
            if self._session:
                readline.read_history_file(self._history)
            readline.parse_and_bind("tab: complete")
            readline.set_completer_delims(" ")
            readline.set_completer(self._complete)
        try:
            with interruptible_input():
                line = input(PROMPT)
        except EOFError:
            return None
        if self._session and line.strip():
            try:
                readline.write_history_file(self._history)
            except OSError:
                self._session = False  # a full disk costs the history, not the conversation
        return line

    def _complete(self, text: str, state: int) -> str | None:
        import readline

        line = readline.get_line_buffer()
        before = len(line) - len(text)
        fitting = [command[before:] for command in self.commands if command.startswith(line)] if line else []
        return fitting[state] if state < len(fitting) else None

    async def _read_toolkit(self) -> str | None:
        from prompt_toolkit.application import run_in_terminal

        if self._session is None:
            self._session = self._toolkit_session()
        self._screen.beside = run_in_terminal
        try:
            line: str = await self._session.prompt_async(PROMPT, handle_sigint=False)
        except EOFError:
            return None
        finally:
            self._screen.beside = None
        return line

    def _toolkit_session(self) -> Any:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        history = FileHistory(str(self._history)) if self._prepare() else InMemoryHistory()
        completer = WordCompleter(lambda: list(self.commands), sentence=True)
        return PromptSession(history=history, completer=completer, complete_while_typing=False)

    def _prepare(self) -> bool:
        """Have a private history file; False when there can be none."""
        try:
            self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._history, flags, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                if os.fstat(descriptor).st_size > MAX_HISTORY_BYTES:
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True


@contextmanager
def interruptible_input() -> Iterator[None]:
    """Have the first signal raise KeyboardInterrupt out of `input()`, and the loop hear of it afterwards.

    readline does not return for a signal that comes between its prompt and its wait (python/cpython#112585), so a thread
    sends it again until it has been taken.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    taken = threading.Event()
    main = threading.get_ident()

    heard: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        if not taken.is_set():
            heard.append(number)
            taken.set()
            raise KeyboardInterrupt

    def repeat() -> None:
        while (number := os.read(reading, 1)) and number[0] not in numbers:
            pass
        while number and not taken.wait(AGAIN_S):
            signal.pthread_kill(main, number[0])

    numbers = heeded()
    before = [(number, signal.signal(number, interrupt)) for number in numbers]
    loop_wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        taken.set()
        signal.set_wakeup_fd(loop_wakeup)
        if loop_wakeup >= 0:
            os.write(loop_wakeup, bytes(heard))
        os.close(writing)
        thread.join()
        os.close(reading)
        for number, handler in before:
            signal.signal(number, handler)


BROKEN = "\x03"


class Keyboard:
    """Lines from the user; those that end with a backslash go on."""

    def __init__(self, environ: Mapping[str, str], screen: Screen, commands: Sequence[str]) -> None:
        self.lines = Lines()
        self._screen = screen
        history = user_dir(environ, "XDG_STATE_HOME", ".local/state") / "chat_history"
        self._editor = Editor(environ, screen, self.lines, history, commands)
        self.interactive = self._editor.interactive
        self._commands = commands
        self._begun: list[str] = []
        self._resting = False

    async def read(self, *, working: bool, alone: bool) -> str | None:
        """The next line; None at the end of input, `BROKEN` for a Ctrl-C that the editor has taken. `alone` says that nothing
        else needs the loop meanwhile."""
        if working:
            return await self.lines.read()
        self._resting = True
        try:
            return await self._editor.read(alone=alone)
        except KeyboardInterrupt:
            return BROKEN  # a task must not raise it: it would end the loop
        finally:
            self._resting = False

    def offer(self, more: Sequence[str]) -> None:
        """What Tab completes beside the commands: those of plugins, models and sessions, as the server tells them."""
        self._editor.commands = list(dict.fromkeys([*self._commands, *more]))

    def whole(self, line: str) -> str | None:
        """The message a line ends, None when it goes on."""
        if line.endswith("\\"):
            self._begun.append(line[:-1])
            return None
        text = (clean_text("\n".join([*self._begun, line])) or "").strip()
        self._begun = []
        return text

    @property
    def _prompted(self) -> bool:
        """Whether a prompt stands there that no editor draws again."""
        return self.interactive and self._resting and self._editor.kind != "prompt_toolkit"

    def again(self) -> None:
        """Show the prompt again; what was begun is dropped."""
        self._begun = []
        if self._prompted:
            self._screen.prompt(PROMPT)

    def aside(self, text: str, look: Look, *, again: bool = True) -> None:
        """A line that comes while somebody may be typing: not behind the prompt, which stands below it again."""
        if self._prompted:
            self._screen.note("")
        self._screen.note(text, look)
        if self._prompted and again:
            self._screen.prompt(PROMPT)

    @staticmethod
    def is_command(text: str) -> bool:
        """Whether a line is a command: it begins with a slash, and its first word is no path such as /etc/hosts."""
        return text.startswith("/") and "/" not in text.split(None, 1)[0][1:]
