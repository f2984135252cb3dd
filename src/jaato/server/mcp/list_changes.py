"""Notifies clients of changes of their list of tools, here or at the remote sources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from jaato.server.tool_sessions import MAX_SESSIONS, Named, ToolSessions

DEBOUNCE_S = 0.1
"""The debounce time: changes within it are one notification."""
REFRESH_S = 60.0
"""The interval of refreshing remote sources, while a client has listed the tools."""
NOTIFY_TIMEOUT_S = 5.0
"""The timeout of a notification."""

Notify = Callable[[], Awaitable[None]]
Sees = Callable[[str], bool]
"""Whether there is a tool of this name for a client."""


@dataclass(slots=True)
class ListedTools:
    """The tools that a client has listed, and how to notify it; None where it listens on the bus."""

    tools: tuple[Named, ...]
    notify: Notify | None
    sees: Sees


class Changes:
    """Records what each client has listed. `publish` notifies all that listen."""

    def __init__(self, sessions: ToolSessions, publish: Notify) -> None:
        self._sessions = sessions
        self._publish = publish
        self._listed: dict[str, ListedTools] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._end = sessions.watch(self._on_change)

    def _on_change(self) -> None:
        """Note a change; from any thread."""
        with suppress(RuntimeError):  # the loop has ended, and so have the clients
            self._loop.call_soon_threadsafe(self._changed.set)

    def record(self, key: str, notify: Notify | None, sees: Sees) -> None:
        """Record that a client has listed the current tools."""
        self._listed.pop(key, None)
        self._listed[key] = ListedTools(self._list_declared(key, sees), notify, sees)
        while len(self._listed) > MAX_SESSIONS:
            del self._listed[next(iter(self._listed))]

    def _list_declared(self, key: str, sees: Sees) -> tuple[Named, ...]:
        return tuple(one for one in self._sessions.declared(key) if sees(one.name))

    def forget(self, key: str) -> None:
        """Remove a client."""
        self._listed.pop(key, None)

    async def watch(self) -> None:
        """Notify clients of changes and refresh remote sources, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh)
            try:
                while True:
                    await self._changed.wait()
                    await anyio.sleep(DEBOUNCE_S)
                    self._changed.clear()
                    await self._notify_changed()
            finally:
                self._end()

    async def _refresh(self) -> None:
        while True:
            await anyio.sleep(REFRESH_S)
            if self._listed:
                await self._sessions.renew()

    async def _notify_changed(self) -> None:
        """Notify the clients whose tools have changed, each once until it lists them again."""
        listen = False
        async with anyio.create_task_group() as group:
            for key, shown in list(self._listed.items()):
                now = self._list_declared(key, shown.sees)
                if now == shown.tools:
                    continue
                shown.tools = now
                if shown.notify is None:
                    listen = True
                else:
                    group.start_soon(self._notify_one, key, shown.notify)
        if listen:
            await self._publish()

    async def _notify_one(self, key: str, notify: Notify) -> None:
        with anyio.move_on_after(NOTIFY_TIMEOUT_S) as timeout:
            try:
                await notify()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.forget(key)
        if timeout.cancelled_caught:
            self.forget(key)
