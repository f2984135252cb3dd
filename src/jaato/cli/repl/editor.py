"""Read lines from the terminal: editing, history, completion, continued lines."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import signal
import sys
import termios
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaato.cli.arguments.values import clean_text, strip_message
from jaato.cli.output.console import Console, Look
from jaato.cli.signals import get_handled_signals
from jaato.settings import user_dir

PROMPT = "> "
SIGNAL_DELAY_S = 0.02
"""Time for the event loop to handle a signal that came while it was blocked."""
RESEND_S = 0.01
"""The interval at which a signal is resent until readline handles it."""
READ_BYTES = 65_536
MAX_HISTORY_BYTES = 1_000_000


NO_INPUT = "\x1b"
"""A line that is none: keys such as F2 and arrows, or a line that was begun before it could be an answer."""
PASTE = "\x1b[200~"
"""What a terminal with bracketed paste sends before pasted text."""
KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")
"""What a terminal sends for a key that is no character."""


def get_typed_text(line: str) -> str:
    """The characters of a line that was typed; `NO_INPUT` for one of other keys alone."""
    text = KEY.sub("", line)
    return text if text or not line else NO_INPUT


class LineReader:
    """Reads lines from stdin, one reader at a time; None is the end of input."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._lines: deque[str] = deque()
        self._rest = b""
        self._ended = False
        self._is_terminal = os.isatty(self.descriptor)
        self._begun = False
        """Whether the next line was begun before it could be an answer."""

    @property
    def pending(self) -> bool:
        """Whether a line has been read ahead."""
        return bool(self._lines)

    def read_pasted(self, line: str) -> list[str]:
        """The lines that came at once with one from a terminal, that one first, as a paste does; one for a line that was typed."""
        while self._is_terminal and not self._ended and select.select([self.descriptor], [], [], 0)[0]:
            self._feed(os.read(self.descriptor, READ_BYTES))
        found = [line, *self._lines] if self._is_terminal else [line]
        self._lines.clear()
        return found

    async def read(self) -> str | None:
        """The next line without its newline; None at the end of input."""
        import anyio  # not needed by a program without an event loop
        import anyio.lowlevel

        while not self._lines:
            if self._ended:
                return None
            try:
                await anyio.wait_readable(self.descriptor)
            except (PermissionError, OSError):
                await anyio.lowlevel.checkpoint()  # a regular file cannot be polled, and is always ready
            self._feed(os.read(self.descriptor, READ_BYTES))
        return self._next_line()

    def read_ready(self) -> bool:
        """Read from a `descriptor` that is readable; False at the end of input. For a program without an event loop."""
        self._feed(os.read(self.descriptor, READ_BYTES))
        return not self._ended or bool(self._lines)

    def next(self) -> str | None:
        """A line that has been read ahead, or None."""
        return self._next_line() if self._lines else None

    def _next_line(self) -> str:
        line, begun, self._begun = self._lines.popleft(), self._begun, False
        return NO_INPUT if begun else line

    def _feed(self, data: bytes, *, whole: bool = True) -> None:
        if not data and not whole:
            return
        if not data:
            self._ended = not os.isatty(self.descriptor) or not self._rest
            lines, self._rest = ([self._rest] if self._rest else []), b""
            if self._ended and not lines:
                return
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line.decode("utf-8", "replace").rstrip("\r") for line in lines)

    def take_typed(self) -> tuple[list[str], str]:
        """Remove what was typed so far: the lines, and the line that is begun. It does not answer a question that was not
        visible yet."""
        if self._is_terminal:
            self._feed(read_unfinished(self.descriptor), whole=False)
        lines, rest = (
            list(map(get_typed_text, self._lines)),
            KEY.sub("", self._rest.decode("utf-8", "replace")),
        )
        self._lines.clear()
        self._rest = b""
        return lines, rest

    def discard(self) -> None:
        """Discard typed-ahead input, with the rest of a line that is begun: it is read as `NO_INPUT`."""
        self._begun = bool(self.take_typed()[1]) or self._begun

    def reopen(self) -> None:
        """Continue after Ctrl-D on a terminal, which ends one read but not the input."""
        if os.isatty(self.descriptor):
            self._ended = False


def read_unfinished(descriptor: int) -> bytes:
    """What was typed at a terminal and not read yet, an unfinished line too."""
    before = termios.tcgetattr(descriptor)
    raw = [*before]
    raw[3] &= ~termios.ICANON
    raw[6] = [*before[6]]
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 0, 0
    termios.tcsetattr(descriptor, termios.TCSANOW, raw)
    try:
        return os.read(descriptor, READ_BYTES)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


class Editor:
    """Reads one message at a time; None is the end of input, Ctrl-C raises KeyboardInterrupt or gives an empty line.

    On a terminal it uses prompt_toolkit if that is installed, else readline, else the terminal's own line editing.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        console: Console,
        reader: LineReader,
        history: Path,
        commands: Sequence[str],
    ) -> None:
        self._console = console
        self._reader = reader
        self._history = history
        self.commands = commands
        self.interactive = sys.stdin.isatty()
        able = self.interactive and console.out_is_terminal and environ.get("TERM", "") not in ("", "dumb")
        self.kind = "plain"
        if able and importlib.util.find_spec("prompt_toolkit") is not None:
            self.kind = "prompt_toolkit"
        elif able and importlib.util.find_spec("readline") is not None:
            self.kind = "readline"
        self._session: Any = None
        self._draft = ""
        """The unfinished line of a read that was cancelled."""

    async def read(self, *, alone: bool) -> str | None:
        """The next message. `alone`: nothing else needs the event loop meanwhile."""
        if self._reader.pending or self.kind == "plain" or (self.kind == "readline" and not alone):
            if self.interactive:
                self._console.prompt(PROMPT)
            return await self._reader.read()
        if self.kind == "readline":
            try:
                return self._read_readline()
            except KeyboardInterrupt:
                import asyncio

                await asyncio.sleep(SIGNAL_DELAY_S)
                return ""
        return await self._read_toolkit()

    def _read_readline(self) -> str | None:
        """Read one line with readline, which blocks the event loop."""
        import readline

        if self._session is None:
            self._session = self._create_history()
            if self._session:
                readline.read_history_file(self._history)
            readline.parse_and_bind("tab: complete")
            readline.set_completer_delims(" ")
            readline.set_completer(self._complete)
        try:
            with interrupt_input():
                line = input(PROMPT)
        except EOFError:
            return None
        if self._session and line.strip():
            try:
                readline.write_history_file(self._history)
            except OSError:
                self._session = False  # without history, as on a full disk
        return line

    def _complete(self, text: str, state: int) -> str | None:
        import readline

        line = readline.get_line_buffer()
        before = len(line) - len(text)
        fitting = [command[before:] for command in self.commands if command.startswith(line)] if line else []
        return fitting[state] if state < len(fitting) else None

    async def _read_toolkit(self) -> str | None:
        import asyncio

        from prompt_toolkit.application import run_in_terminal

        if self._session is None:
            self._session = self._toolkit_session()
        self._console.beside = run_in_terminal
        draft, self._draft = self._draft, ""
        try:
            line: str = await self._session.prompt_async(PROMPT, default=draft, handle_sigint=False)
        except EOFError:
            return None
        except asyncio.CancelledError:
            self._draft = self._session.default_buffer.text
            raise
        finally:
            self._console.beside = None
        return line

    def _toolkit_session(self) -> Any:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        history = FileHistory(str(self._history)) if self._create_history() else InMemoryHistory()
        completer = WordCompleter(lambda: list(self.commands), sentence=True)
        return PromptSession(history=history, completer=completer, complete_while_typing=False)

    def _create_history(self) -> bool:
        """Create a private history file; False when that fails."""
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
def interrupt_input() -> Iterator[None]:
    """Make the first signal raise KeyboardInterrupt from `input()`, and pass it to the event loop afterwards.

    readline does not return for a signal that arrives between its prompt and its wait (python/cpython#112585), so a thread
    resends it until it is handled.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    handled = threading.Event()
    main = threading.get_ident()
    received: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        if not handled.is_set():
            received.append(number)
            handled.set()
            raise KeyboardInterrupt

    def repeat() -> None:
        while (number := os.read(reading, 1)) and number[0] not in numbers:
            pass
        while number and not handled.wait(RESEND_S):
            signal.pthread_kill(main, number[0])

    numbers = get_handled_signals()
    before = [(number, signal.signal(number, interrupt)) for number in numbers]
    loop_wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        handled.set()
        signal.set_wakeup_fd(loop_wakeup)
        if loop_wakeup >= 0:
            os.write(loop_wakeup, bytes(received))
        os.close(writing)
        thread.join()
        os.close(reading)
        for number, handler in before:
            signal.signal(number, handler)


INTERRUPT = "\x03"
"""What `Keyboard.read` returns for a Ctrl-C that the editor handled."""


class Keyboard:
    """Reads messages from the user; a line that ends with a backslash is continued."""

    def __init__(self, environ: Mapping[str, str], console: Console, commands: Sequence[str]) -> None:
        self.reader = LineReader()
        self._console = console
        history = user_dir(environ, "XDG_STATE_HOME", ".local/state") / "chat_history"
        self._editor = Editor(environ, console, self.reader, history, commands)
        self.interactive = self._editor.interactive
        self._commands = commands
        self._continued: list[str] = []
        self._prompting = False

    async def read(self, *, working: bool, alone: bool) -> str | None:
        """The next line; None at the end of input, `INTERRUPT` for Ctrl-C. `working`: a turn runs, so no prompt is shown;
        `alone`: nothing else needs the event loop meanwhile."""
        if working:
            return await self.reader.read()
        self._prompting = True
        try:
            return await self._editor.read(alone=alone)
        except KeyboardInterrupt:
            return INTERRUPT  # raised in a task, KeyboardInterrupt would end the event loop
        finally:
            self._prompting = False

    def set_completions(self, more: Sequence[str]) -> None:
        """Set what Tab completes besides the commands: plugin commands, models and sessions."""
        self._editor.commands = list(dict.fromkeys([*self._commands, *more]))

    def join(self, line: str) -> str | None:
        """The message that ends with this line; None when the line is continued."""
        if line.endswith("\\"):
            self._continued.append(line[:-1])
            return None
        text = clean_text("\n".join([*self._continued, line])) or ""
        self._continued = []
        return strip_message(text)

    @property
    def _has_prompt(self) -> bool:
        """Whether a prompt is shown that the editor does not redraw by itself."""
        return self.interactive and self._prompting and self._editor.kind != "prompt_toolkit"

    def show_prompt(self) -> None:
        """Show the prompt again, and discard continued lines."""
        self._continued = []
        if self._has_prompt:
            self._console.prompt(PROMPT)

    def note(self, text: str, look: Look, *, prompt_again: bool = True, waits: bool = False) -> None:
        """Print a line while the user may be typing: below the prompt, which is then shown again. One that `waits` does not
        break a line of the answer."""
        if self._has_prompt:
            self._console.note("")
        self._console.note(text, look, waits=waits)
        if self._has_prompt and prompt_again:
            self._console.prompt(PROMPT)
