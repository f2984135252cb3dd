"""The user's own editor for the prompt: the program that `VISUAL` or `EDITOR` names."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
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
END_S = 1.0
"""How long an editor has to end when the client does."""


async def edit(app: App[Any], text: str, on_interrupt: Callable[[], object]) -> str:
    """The text as the user leaves it in the editor, which has the terminal until it ends; the session continues meanwhile.
    `on_interrupt` is what SIGINT calls in the client, and not until then: Ctrl+C is the editor's.

    Raises `ConfigError` where there is no editor, it fails, or it leaves no file of text.
    """
    command = find_editor(environment())
    with tempfile.TemporaryDirectory(prefix="jaato-message-") as directory:
        path = Path(directory) / FILE
        path.write_text(text, encoding="utf-8")
        with app.batch_update(), app.suspend():  # in a batch nothing is drawn
            code = await run([*command, str(path)], on_interrupt)
        if isinstance(code, OSError):
            raise ConfigError(f"The editor {command[0]} cannot be started: {code.strerror}. Set EDITOR.")
        if code:
            raise ConfigError(
                f"The editor {command[0]} has ended with exit code {code}; the prompt is as it was."
            )
        content = read_bounded(path, MAX_BYTES)
    if content is None:
        raise ConfigError("The editor has left no file; the prompt is as it was.")
    return printable(content.decode("utf-8", "replace").replace("\r\n", "\n")).removesuffix("\n")


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


async def run(command: list[str], on_interrupt: Callable[[], object]) -> int | OSError:
    """Run a program in the terminal, no longer than this client; its exit code, or why it cannot be started."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        process = await asyncio.create_subprocess_exec(*command)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
            raise
    except OSError as error:
        return error
    finally:
        loop.add_signal_handler(signal.SIGINT, on_interrupt)
