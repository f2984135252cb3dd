"""Terminals of the editor that show the output of commands, which run in the server's sandbox: none runs in the editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from acp.exceptions import RequestError
from acp.schema import TerminalToolCallContent

from acp import schema
from jaato.errors import JaatoError

TOOLS = ("run",)
"""Tools whose output is shown in a terminal."""
MAX_TERMINALS = 8
"""How many terminals of one session the editor has at once; the output of further commands is text."""
MAX_OUTPUT_BYTES = 1 << 20
CLOSE_TIMEOUT_S = 10.0
"""How long a terminal may take to show the rest of the output before it is released."""
SIGNAL_CODES = range(129, 160)
"""Exit codes of a shell for a program that was ended by a signal."""


class TerminalEditor(Protocol):
    """What is asked of the editor: the library's connection."""

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **kwargs: Any
    ) -> schema.CreateTerminalResponse:
        """Run a program in a new terminal."""

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for the end of the program."""

    async def release_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        """End the program; what it has shown stays in the call."""


def follow_command(socket: Path) -> tuple[str, ...]:
    """The program that shows the output of a call of the server at a socket; a session and a call follow. It imports nothing
    from the directory it runs in, which is the workspace."""
    return (sys.executable, "-P", "-m", "jaato.acp.follow", str(socket))


def terminal_content(terminal_id: str) -> TerminalToolCallContent:
    """A terminal as the content of a call."""
    return TerminalToolCallContent(type="terminal", terminal_id=terminal_id)


class Terminals:
    """Terminals of one session in which a program of the editor follows a call. A program that is killed there stops its call;
    where it ends otherwise before the call, the output is text."""

    def __init__(
        self,
        session_id: str,
        editor: TerminalEditor,
        follow: tuple[str, ...],
        *,
        show: Callable[[str, str], Awaitable[None]],
        hide: Callable[[str], None],
        stop_call: Callable[[str], Awaitable[object]],
    ) -> None:
        self._session_id = session_id
        self._editor = editor
        self._follow = follow
        self._show = show
        self._hide = hide
        self._stop_call = stop_call
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._opened: set[str] = set()
        """The running calls that have, or had, a terminal."""
        self._ended: dict[str, Callable[[], Awaitable[None]]] = {}
        """The calls that have ended before their program, with what shows their output as text."""
        self._late: set[asyncio.Future[None]] = set()
        """What releases terminals that the editor creates too late."""
        self._closed = False

    def open(self, call_id: str) -> None:
        """Create the terminal of a running call, once, in a task of its own."""
        if call_id not in self._opened and len(self._tasks) < MAX_TERMINALS:
            self._opened.add(call_id)
            self._tasks[call_id] = asyncio.get_running_loop().create_task(self._run(call_id))

    def end(self, call_id: str, show_text: Callable[[], Awaitable[None]]) -> None:
        """The call has ended: its program ends by itself, and the terminal is released; `show_text` if the program is late."""
        self._opened.discard(call_id)
        if (task := self._tasks.get(call_id)) is not None and call_id not in self._ended:
            self._ended[call_id] = show_text
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, task.cancel)

    def close(self) -> None:
        """Release every terminal."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, call_id: str) -> None:
        has_exited = False
        try:
            with suppress(RequestError, ConnectionError, ValueError, JaatoError):
                has_exited = await self._follow_call(call_id)
        finally:
            self._tasks.pop(call_id, None)
            show_text = self._ended.pop(call_id, None)
            if show_text is None:
                self._hide(call_id)
            elif not has_exited and not self._closed:
                with suppress(ConnectionError):
                    await show_text()

    async def _follow_call(self, call_id: str) -> bool:
        """Show a call in a terminal until its program has ended: whether it has."""
        command = [*self._follow, self._session_id, call_id]
        creating = asyncio.ensure_future(
            self._editor.create_terminal(
                self._session_id, command[0], command[1:], output_byte_limit=MAX_OUTPUT_BYTES
            )
        )
        try:
            terminal_id = (await asyncio.shield(creating)).terminal_id
        except asyncio.CancelledError:
            releasing = asyncio.ensure_future(self._release_late(creating))
            self._late.add(releasing)
            releasing.add_done_callback(self._late.discard)
            raise
        try:
            if call_id not in self._ended:
                await self._show(call_id, terminal_id)
            exited = await self._editor.wait_for_terminal_exit(self._session_id, terminal_id)
            if call_id not in self._ended and (exited.signal or exited.exit_code in SIGNAL_CODES):
                await self._stop_call(call_id)  # as its user meant who has killed the program
            return True
        finally:
            with suppress(RequestError, ConnectionError, ValueError):
                await asyncio.shield(self._editor.release_terminal(self._session_id, terminal_id))

    async def _release_late(self, creating: asyncio.Future[schema.CreateTerminalResponse]) -> None:
        """Release a terminal that the editor creates after it was waited for."""
        with suppress(RequestError, ConnectionError, ValueError):
            made = await creating
            await self._editor.release_terminal(self._session_id, made.terminal_id)
