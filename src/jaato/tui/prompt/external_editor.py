"""The user's own editor for the prompt: the program that `VISUAL` or `EDITOR` names."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from textual.app import App

from jaato.cli.output.console import printable
from jaato.errors import ConfigError
from jaato.settings import environment
from jaato.tools.filesystem.atomic import read_bounded

DEFAULTS = ("sensible-editor", "nano", "vim", "vi")
"""The editors for users who name none, the first that is installed."""
FILE = "message.md"
MAX_BYTES = 8_000_000
RECOVERED = (f"{FILE}.save", f"#{FILE}#")
"""Where nano and Emacs write a text that is not saved when a signal ends them."""
END_S = 1.0
"""How long an editor has to end when the client does."""


class ExternalEditor:
    """An editor that has the terminal until it ends; the session continues meanwhile."""

    def __init__(self, app: App[Any], on_interrupt: Callable[[], object]) -> None:
        self._app = app
        self._on_interrupt = on_interrupt
        """What SIGINT calls in the client, and not until the editor has ended: Ctrl+C is the editor's."""
        self._process: asyncio.subprocess.Process | None = None
        self.is_stopped = False
        """Whether the client has ended it."""

    async def edit(self, text: str) -> str:
        """The text as the user leaves it; of an editor that a signal or the client has ended, what it has saved.

        Raises `ConfigError` where there is no editor, it fails, or it leaves no file of text.
        """
        command = find_editor(environment())
        with tempfile.TemporaryDirectory(prefix="jaato-message-") as directory:
            path = Path(directory) / FILE
            path.write_text(text, encoding="utf-8")
            with self._app.batch_update(), self._app.suspend():  # in a batch nothing is drawn
                code = await self._run([*command, str(path)])
            if isinstance(code, OSError):
                raise ConfigError(f"The editor {command[0]} cannot be started: {code.strerror}. Set EDITOR.")
            recovered = next(filter(Path.is_file, map(path.with_name, RECOVERED)), None) if code else None
            content = read_bounded(recovered or path, MAX_BYTES)
        if code and not (content and (recovered or code < 0 or self.is_stopped)):
            raise ConfigError(
                f"The editor {command[0]} has ended with exit code {code}; the prompt is as it was."
            )
        if content is None:
            raise ConfigError("The editor has left no file; the prompt is as it was.")
        return printable(content.decode("utf-8", "replace").replace("\r\n", "\n")).removesuffix("\n")

    async def _run(self, command: list[str]) -> int | OSError:
        """Run a program in the terminal, no longer than this client; its exit code, or why it cannot be started."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        try:
            self._process = process = await asyncio.create_subprocess_exec(*command)
            try:
                if self.is_stopped:
                    self.stop()
                return await process.wait()
            except asyncio.CancelledError:
                self.stop()
                await process.wait()
                raise
        except OSError as error:
            return error
        finally:
            loop.add_signal_handler(signal.SIGINT, self._on_interrupt)

    def stop(self) -> None:
        """End the editor, as the client ends."""
        self.is_stopped = True
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            asyncio.get_running_loop().call_later(END_S, self._kill, self._process)

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.kill()


def find_editor(environ: Mapping[str, str]) -> list[str]:
    """The command of the user's editor. Raises `ConfigError`."""
    named = environ.get("VISUAL") or environ.get("EDITOR") or next(filter(shutil.which, DEFAULTS), "")
    try:
        command = shlex.split(named)
    except ValueError:
        command = []
    if not any(command):
        raise ConfigError(
            "There is no editor: set EDITOR to one, such as EDITOR=nano, and start jaato again."
        )
    return command
