"""The driver of the terminal: its input is read as text whatever bytes come, and a paste is never read as keys."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import termios
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TextIO

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
READ_BYTES = 1 << 16
SELECT_S = 0.1
"""How often the thread looks whether the client ends, and whether an Escape was a key by itself."""
RESET = "\x1b[r\x1b[?6l\x1b[4l\x1b(B\x0f\x1b[m"
"""No margins, positions from the corner, no insert mode, letters instead of lines, no colour."""


class TerminalDriver(LinuxDriver):
    """Textual's driver with another reader, which survives bytes that are no UTF-8 and ends with the terminal. A program that
    has the terminal meanwhile may leave it in any state."""

    def resume_application_mode(self) -> None:
        """Take the terminal again."""
        if not self._must_signal_resume and self.attrs_before is not None:  # not a shell
            with suppress(termios.error):  # else what the program has left would be what the shell gets
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        super().resume_application_mode()
        self.write(RESET)

    def _sigtstp_application(self, *_signal: object) -> None:
        """Stop, if there is a shell to continue this: where there is none, as with a client that ssh or tmux has started, the kernel
        ignores the signal, unlike SIGSTOP, which Textual sends."""
        is_shown = self._auto_restart  # no other program has the terminal
        if is_shown:
            self.suspend_application_mode()
            self._must_signal_resume = True
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        if signal.getsignal(signal.SIGCONT) == signal.SIG_IGN:
            return  # the terminal was closed
        signal.signal(signal.SIGCONT, self._sigcont_application)
        if is_shown:
            self.resume_application_mode()

    def _sigcont_application(self, *_signal: object) -> None:
        """Take the terminal once the shell gives it: after a stop in the background, not while it is taken."""
        if self._must_signal_resume:
            super()._sigcont_application()

    def run_input_thread(self) -> None:
        """Read and dispatch events until the client ends, or its terminal is closed."""
        parser = InputParser(self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(SELECT_S):
                    if not (data := self._read()):
                        break
                    for event in parser.parse(data):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        parser.close()

    def _read(self) -> bytes:
        """What has come; nothing from a closed terminal."""
        try:
            return os.read(self.fileno, READ_BYTES)
        except OSError:
            return b""


class InputParser:
    """Makes events of the bytes of a terminal."""

    def __init__(self, debug: bool) -> None:
        self._parser = XTermParser(debug)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pastes = PasteFilter()

    def parse(self, data: bytes) -> Iterator[Message]:
        """The events of the next bytes: none for a part of a character or mark, as the parser takes an empty text for the end."""
        if text := self._pastes.filter(self._decoder.decode(data)):
            yield from self._parser.feed(text)

    def tick(self) -> Iterable[Message]:
        """The events that are due when nothing came."""
        return self._parser.tick()

    def close(self) -> None:
        """End the parser."""
        with suppress(EOFError, ParseError):
            for _ in self._parser.feed(""):
                pass


class PasteFilter:
    """Removes Escape from what is pasted: the parser would read what follows it as keys, Enter among them.

    Most terminals do so themselves; tmux does not.
    """

    def __init__(self) -> None:
        self._is_pasting = False
        self._tail = ""
        """The end of what came before, where a mark may have begun."""

    def filter(self, text: str) -> str:
        """The next part of the input, without a mark's beginning at the end of a paste, which may be one or not."""
        found: list[str] = []
        while text:
            if self._is_pasting:
                body, end, text = (self._tail + text).partition(PASTE_ENDS)
                self._tail = "" if end else find_beginning(body)
                found += [body.removesuffix(self._tail).replace("\x1b", ""), end]
                self._is_pasting = not end
                continue
            seen = self._tail + text
            before, begins, _ = seen.partition(PASTE_BEGINS)
            length = len(before) + len(begins) - len(self._tail)
            found.append(text[:length])
            text = text[length:]
            self._is_pasting = bool(begins)
            self._tail = "" if begins else find_beginning(seen, PASTE_BEGINS)
        return "".join(found)


def find_beginning(text: str, mark: str = PASTE_ENDS) -> str:
    """The longest beginning of a mark with which a text ends."""
    return next((mark[:size] for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), "")


def is_open_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that was not closed."""
    try:
        return stream is not None and bool(termios.tcgetattr(stream.fileno()))
    except (OSError, termios.error):
        return False
