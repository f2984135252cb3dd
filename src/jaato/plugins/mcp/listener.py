"""What a server asks and tells of its own accord."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types

from jaato.plugins.mcp.elicit import CALLER, Caller, elicited
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.sayings import first_line

REFRESH_AFTER_S = 0.3
MOST_REFRESH_S = 60.0
"""How long after a change the lists are asked for; longer and longer when they change all the time."""


class Listener:
    """The SDK's callbacks. `callers` are the calls under way, `changed` is set when the server offers something else."""

    def __init__(self, name: str, workspace: Path, log: ServerLog) -> None:
        self._name = name
        self._workspace = workspace
        self._log = log
        self.callers: list[Caller] = []
        self.changed = asyncio.Event()
        self._pause_s = REFRESH_AFTER_S

    async def change(self) -> None:
        """Wait until the server offers something else, and as long as makes sense before it is asked what."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        await self.changed.wait()
        if loop.time() - since > self._pause_s:
            self._pause_s = REFRESH_AFTER_S
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, MOST_REFRESH_S)
        self.changed.clear()

    async def elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        """What the user says to a question of the server's, which is always that of some call."""
        caller = CALLER.get() or self._only_caller()
        if caller is None:
            self._log.note("asked the user outside of any call, which was not passed on")
            return types.ElicitResult(action="cancel")
        action, content = await elicited(self._name, caller, params)
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    def _only_caller(self) -> Caller | None:
        """Whose call a question belongs to that does not say so: clear only when one session calls."""
        sessions = {caller.call.session_id for caller in self.callers}
        return self.callers[-1] if len(sessions) == 1 else None

    async def roots(self, _context: Any) -> types.ListRootsResult:
        """The workspace."""
        root = types.Root(uri=self._workspace.as_uri(), name=self._workspace.name)  # type: ignore[arg-type]
        return types.ListRootsResult(roots=[root])

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """A line for its log."""
        self._log.write(f"[{params.level}] {str(params.data)[:2000]}\n")

    async def heard(self, message: Any) -> None:
        """Anything else it tells: that a list has changed, that something cannot be read."""
        match message:
            case (
                types.ToolListChangedNotification()
                | types.PromptListChangedNotification()
                | types.ResourceListChangedNotification()
            ):
                self.changed.set()
            case Exception():
                self._log.note(f"sent something that cannot be read: {first_line(message)}")
