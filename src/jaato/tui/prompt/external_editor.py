"""The user's own editor for the prompt: the program that `VISUAL` or `EDITOR` names."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from textual.app import App

from jaato.cli.output.console import printable
from jaato.errors import ConfigError
from jaato.settings import environment
from jaato.tools.filesystem.atomic import file_lock, read_bounded
from jaato.tools.processes.warden import process_tree

DEFAULTS = ("sensible-editor", "nano", "vim", "vi")
"""The editors for users who name none, the first that is installed."""
NAME = "tui_message"
"""How the directories begin that have a message in an editor; those that are not locked were left by clients that were killed."""
FILE = "message.md"
MAX_BYTES = 8_000_000
RECOVERED = (f"{FILE}.save", f"#{FILE}#")
"""Where nano and Emacs write a text that is not saved when a signal ends them."""
END_S, LOOK_S = 1.0, 0.05
"""How long an editor has to end when the client does, and how often it is looked whether it has."""


class ExternalEditor:
    """An editor that has the terminal until it ends; the session continues meanwhile."""

    def __init__(self, app: App[Any], on_interrupt: Callable[[], object], state_dir: Path) -> None:
        self._app = app
        self._state_dir = state_dir
        self._on_interrupt = on_interrupt
        """What SIGINT calls in the client, and not until the editor has ended: Ctrl+C is the editor's."""
        self._process: asyncio.subprocess.Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self.is_stopped = False
        """Whether the client has ended it."""

    async def edit(self, text: str) -> str:
        """The text as the user leaves it; of an editor that a signal or the client has ended, what it has saved.

        Raises `ConfigError` where there is no editor, it fails, or it leaves no file of text.
        """
        command = find_editor(environment())
        with make_directory(self._state_dir) as (directory, lock):
            path = directory / FILE
            path.write_text(text, encoding="utf-8")
            os.utime(path, (0, 0))  # any other time is that of a change
            with self._app.batch_update(), self._app.suspend():  # in a batch nothing is drawn
                code = await self._run([*command, str(path)], lock)
            if isinstance(code, OSError):
                raise ConfigError(f"The editor {command[0]} cannot be started: {code.strerror}. Set EDITOR.")
            recovered = find_recovered(directory) if code else None
            content = read_bounded(recovered or path, MAX_BYTES)
        if code and not (content and (recovered or code < 0 or self.is_stopped)):
            raise ConfigError(
                f"The editor {command[0]} has ended with exit code {code}; the prompt is as it was."
            )
        if content is None:
            raise ConfigError("The editor has left no file; the prompt is as it was.")
        return decode(content)

    async def _run(self, command: list[str], lock: int) -> int | OSError:
        """Run a program in the terminal, no longer than this client; its exit code, or why it cannot be started."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        try:
            self._process = process = await asyncio.create_subprocess_exec(*command, pass_fds=[lock])
            try:
                if self.is_stopped:
                    self.stop()
                return await process.wait()
            except asyncio.CancelledError:
                self.stop()
                raise
            finally:
                if self._ending is not None:
                    await self._ending
        except OSError as error:
            return error
        finally:
            loop.add_signal_handler(signal.SIGINT, self._on_interrupt)

    def stop(self) -> None:
        """End the editor, as the client ends."""
        self.is_stopped = True
        if self._process is not None and self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(end_tree(self._process.pid))


async def end_tree(pid: int) -> None:
    """End a process and all below it, as the editor may be started by a script: with SIGTERM, after a while with SIGKILL."""
    tree = find_living({pid: None, **dict.fromkeys(process_tree.descendants(pid))})
    send_signal(tree, signal.SIGTERM)
    until = asyncio.get_running_loop().time() + END_S
    while (tree := find_living(tree)) and asyncio.get_running_loop().time() < until + END_S:
        if asyncio.get_running_loop().time() > until:
            send_signal(tree, signal.SIGKILL)
        await asyncio.sleep(LOOK_S)


def find_living(tree: Mapping[int, int | None]) -> dict[int, int | None]:
    """Those of some processes that have not ended, with when each was started; another one may have its id."""
    try:
        rows = process_tree.table()
    except OSError:
        return {}
    known = ((pid, start, rows.get(pid)) for pid, start in tree.items())
    return {
        pid: row[3] for pid, start, row in known if row and row[2] not in b"ZX" and start in (None, row[3])
    }


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended, or be another user's."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


@contextmanager
def make_directory(state_dir: Path) -> Iterator[tuple[Path, int]]:
    """A directory for a message while the body runs, and the descriptor of a lock on it, which the editor inherits; elsewhere if
    nothing can be written there. Raises `OSError`."""
    try:
        with file_lock(state_dir / NAME):
            path, lock = lock_new_directory(f"{NAME}-", state_dir)
    except OSError:
        path, lock = lock_new_directory("jaato-message-", None)
    try:
        yield path, lock
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def lock_new_directory(prefix: str, parent: Path | None) -> tuple[Path, int]:
    """A new directory and the descriptor of a lock on it. Raises `OSError`."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock = os.open(path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def take_saved(state_dir: Path) -> list[str]:
    """What the editors of clients that were killed have saved; their directories are removed, once the editors have ended."""
    found: list[str] = []
    for directory in sorted(state_dir.glob(f"{NAME}-*")):
        with suppress(OSError, ConfigError), file_lock(state_dir / NAME):
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path = find_recovered(directory) or directory / FILE
                if path.is_file() and path.stat().st_mtime and (content := read_bounded(path, MAX_BYTES)):
                    found.append(decode(content))
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)
    return found


def find_recovered(directory: Path) -> Path | None:
    """What an editor has written as a signal has ended it."""
    return next((path for name in RECOVERED if (path := directory / name).is_file()), None)


def decode(content: bytes) -> str:
    """The text of a message."""
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
