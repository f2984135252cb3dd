"""A terminal plugin as the tests use it: real programs, calls as the runtime makes them."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from tests.shell.running import OneHost

from jaato.plugins.terminal.plugin import TerminalPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call

PATHS = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Desk:
    """A plugin in a directory; every method is one call and gives what the model reads.

    `access` is what its calls are allowed.
    """

    access: SandboxAccess | None = None

    def __init__(self, workspace: Path, **config: Any) -> None:
        environ: Mapping[str, str] = {**PATHS, "HOME": str(workspace), **config.pop("environ", {})}
        self.workspace = workspace
        self.plugin = TerminalPlugin(OneHost(workspace, config, environ))

    def call(self, session_id: str = "s1") -> Call:
        """A call of a session."""
        return Call("c", "shell", {}, workspace=self.workspace, session_id=session_id, access=self.access)

    async def spawn(self, command: str, *, of: str = "s1", **more: Any) -> dict[str, Any]:
        """Start a program."""
        return (await self.plugin.shell_spawn(command, call=self.call(of), **more))[0]

    async def type(self, session_id: str, text: str = "", *, of: str = "s1", **more: Any) -> dict[str, Any]:
        """Type something."""
        return (await self.plugin.shell_input(session_id, text, call=self.call(of), **more))[0]

    async def read(self, session_id: str, *, of: str = "s1", **more: Any) -> dict[str, Any]:
        """Look."""
        return (await self.plugin.shell_read(session_id, call=self.call(of), **more))[0]

    async def control(self, session_id: str, action: Any, **more: Any) -> dict[str, Any]:
        """Signal, end the input, resize."""
        return (await self.plugin.shell_control(session_id, action, call=self.call(), **more))[0]

    async def close(self, session_id: str) -> dict[str, Any]:
        """End it."""
        return (await self.plugin.shell_close(session_id, call=self.call()))[0]

    async def list(self, of: str = "s1") -> list[dict[str, Any]]:
        """What there is."""
        found: list[dict[str, Any]] = (await self.plugin.shell_list(call=self.call(of)))["sessions"]
        return found

    async def until(self, session_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Look until it is so."""
        with anyio.fail_after(60):
            while not wanted(value := await self.read(session_id, wait_s=1, whole=True)):
                pass
        return value

    async def until_foreground(self, *command: str) -> None:
        """Wait until this command runs in the foreground of its terminal."""
        with anyio.fail_after(60):
            while not in_foreground(command):
                await anyio.sleep(0.02)


def in_foreground(command: Sequence[str]) -> bool:
    """Whether a process with this command line runs in the foreground of its terminal."""
    line = b"".join(word.encode() + b"\0" for word in command)
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == line:
                state, _, group, _, _, foreground = (
                    (entry / "stat").read_text().rpartition(")")[2].split()[:6]
                )
                return state != "T" and group == foreground
        except OSError:  # it may end while it is looked at
            continue
    return False


def at_desk(workspace: Path, work: Callable[[Desk], Awaitable[object]], **config: Any) -> None:
    """Do some work, end all, and see that no descriptor is left open."""
    before = len(os.listdir("/dev/fd"))

    async def main() -> None:
        desk = Desk(workspace, **config)
        try:
            await work(desk)
        finally:
            await anyio.to_thread.run_sync(desk.plugin.shutdown)

    anyio.run(main)
    until = time.monotonic() + 60
    while len(os.listdir("/dev/fd")) > before and time.monotonic() < until:
        time.sleep(0.01)  # one of an earlier test may still have been closing
    assert len(os.listdir("/dev/fd")) <= before
