"""A program in a real terminal: a pane of tmux, with a server of tmux's own."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 60
LOOK_S = 0.03
"""Between two looks at the screen."""


class Pane:
    """What is on the screen of a program, and the keys for it."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket)]
        self._code = socket.with_name("code")  # tmux itself does not always know it

    def ask(self, *words: str) -> str:
        """What tmux answers to a command."""
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def screen(self) -> str:
        """The lines of the screen."""
        return self.ask("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, named as tmux names them."""
        self.ask("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text."""
        self.ask("send-keys", "-l", text)

    def wait(self, holds: Callable[[str], object]) -> str:
        """Wait until something holds of the screen, which is returned."""
        until = time.monotonic() + TIMEOUT_S
        while not holds(screen := self.screen):
            assert time.monotonic() < until, screen
            time.sleep(LOOK_S)
        return screen

    def see(self, *texts: str) -> None:
        """Wait until all texts are on the screen at once."""
        self.wait(lambda screen: all(text in screen for text in texts))

    def exit_code(self) -> int:
        """The exit code of the program, once it has ended."""
        until = time.monotonic() + TIMEOUT_S
        while not (code := self._code.read_text() if self._code.exists() else ""):
            assert time.monotonic() < until, self.screen
            time.sleep(LOOK_S)
        return int(code)


@contextmanager
def pane(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (110, 50)
) -> Iterator[Pane]:
    """A program in a pane of some columns and lines, ended with the body."""
    with tempfile.TemporaryDirectory(prefix="jaato-tmux-") as place:
        socket = Path(place) / "tmux"
        width, height = map(str, size)
        words = ["tmux", "-S", str(socket), "-f", "/dev/null", "start-server", ";"]
        words += [
            "set-option",
            "-g",
            "remain-on-exit",
            "on",
            ";",
            "set-option",
            "-g",
            "escape-time",
            "0",
            ";",
        ]
        words += [
            "new-session",
            "-d",
            "-x",
            width,
            "-y",
            height,
            "-c",
            str(cwd),
            f"{shlex.join(command)}; echo $? > {shlex.quote(str(socket.with_name('code')))}",
        ]
        subprocess.run(words, env={**env, "LANG": "C.UTF-8", "SHELL": "/bin/sh"}, check=True)
        shown = Pane(socket)
        try:
            yield shown
        finally:
            shown.ask("kill-server")
