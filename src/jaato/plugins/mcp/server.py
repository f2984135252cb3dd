"""One MCP server: its transport by its kind, lazy start, sharing, idle end, backoff after failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jaato.errors import JaatoError
from jaato.plugins.mcp.config import McpServerOptions, access_of, warn_unconfined
from jaato.plugins.mcp.errors import ServerFault
from jaato.plugins.mcp.manifest import Manifest
from jaato.plugins.mcp.server_log import ServerLog
from jaato.settings import home_of
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from jaato.plugins.mcp.client import McpClient
    from jaato.plugins.mcp.session import Transport

State = Literal["configured", "known", "starting", "started", "failed"]
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 300.0
SOON_S = 1.5
"""A wait no longer than this is waited; for a longer one the call fails and says so."""
LIVED_S = 60.0
"""A server that has run so long was not broken from the start."""
MOST_TIMEOUTS = 3
"""Calls in a row without an answer after which the server is ended, to be started anew."""


class McpServer:
    """Lives on the pool's loop; every method is called there."""

    def __init__(self, setting: McpServerOptions, launcher: WardenClient) -> None:
        self.setting = setting
        self.users: set[object] = set()
        self.log = ServerLog(setting.log, setting.mask)
        self.manifest: Manifest | None = None
        self.watchers: dict[object, Callable[[Manifest], None]] = {}
        self.failure = ""
        self.connection: McpClient | None = None
        self._launcher = launcher
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[McpClient] | None = None
        self._failures = 0
        self._not_before = 0.0
        self._since = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._busy = 0
        self._used = 0.0

    @property
    def state(self) -> State:
        """Where it stands."""
        if self._starting is not None:
            return "starting"
        if self.connection is not None and not self.connection.over.is_set():
            return "started"
        if self.failure:
            return "failed"
        return "known" if self.manifest is not None else "configured"

    async def connected(self, *, patient: bool = True) -> McpClient:
        """The running server; it is started if need be. Raises `ServerFault`, also without a try when it has just failed.

        With `patient` False the wait after failures does not count.
        """
        connection = self.connection
        if connection is not None and not connection.over.is_set():
            return connection
        if self._starting is None:
            wait_s = self._not_before - time.monotonic()
            if patient and wait_s > SOON_S:
                raise ServerFault(
                    f"{self.failure} It has failed {self._failures} times in a row and is tried again in "
                    f"{wait_s:.0f} s; mcp_connect tries it at once."
                )
            self._starting = asyncio.create_task(self._start(max(wait_s, 0.0) if patient else 0.0))
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, task: asyncio.Task[McpClient]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # whoever waits for it hears of it

    async def _start(self, wait_s: float) -> McpClient:
        await asyncio.sleep(wait_s)
        last_protocol_version = (
            self.manifest.protocol_version
            if self.manifest is not None
            else self.setting.last_protocol_version
        )
        handshake_first = bool(last_protocol_version) and last_protocol_version < "2026"
        try:
            return await self._opened(handshake_first)
        except ServerFault as error:
            self._failed(str(error))
            raise
        except JaatoError as error:
            self._stopped_by(error)  # somebody has to log in; trying again costs nothing
            raise

    async def _opened(self, handshake_first: bool) -> McpClient:
        """A connection; a server that breaks at the newer way of beginning is asked in the older one."""
        setting = self.setting
        transport = self._way()
        try:
            return await self._over(transport, handshake_first)
        except ServerFault:
            if handshake_first or not transport.failed_immediately:
                raise
        return await self._over(self._way(older=setting.config.kind != "stdio"), handshake_first=True)

    def _way(self, *, older: bool = False) -> Transport:
        self.log = ServerLog(self.setting.log, self.setting.mask)
        try:
            return make_transport(self.setting, self._launcher, self.log, older)
        except JaatoError as error:
            raise ServerFault(str(error)) from None

    async def _over(self, transport: Transport, handshake_first: bool) -> McpClient:
        from jaato.plugins.mcp.client import McpClient

        connection = McpClient(
            self.setting.config,
            transport,
            self.log,
            workspace=self.setting.workspace,
            handshake_first=handshake_first,
            on_manifest=self._known,
        )
        self._task = asyncio.create_task(self._run(connection))
        try:
            await connection.ready
        except asyncio.CancelledError:
            connection.stop()
            raise
        self.connection = connection
        self._since = time.monotonic()
        self.failure = ""
        self._rest()
        return connection

    async def _run(self, connection: McpClient) -> None:
        await connection.run()
        if self.connection is connection:
            self.connection = None
            if connection.fault is not None:
                self._stopped_by(connection.fault)
            elif not connection.stopped:
                if time.monotonic() - self._since >= LIVED_S:
                    self._failures = 0
                self._failed(f"The MCP server {self.setting.config.name} ended. {connection.why}")

    def _stopped_by(self, error: JaatoError) -> None:
        """It cannot be used for a reason of its own. Whether a login is needed is kept with the logins."""
        self.failure = "" if error.code == "login_needed" else str(error)

    def _failed(self, why: str) -> None:
        self.failure = why
        self._failures += 1
        wait_s = min(FIRST_WAIT_S * 2 ** (self._failures - 1), MOST_WAIT_S) if self._failures > 1 else 0.0
        self._not_before = time.monotonic() + wait_s

    def _known(self, manifest: Manifest) -> None:
        self.manifest = manifest
        for watch in list(self.watchers.values()):
            watch(manifest)

    def answered(self) -> None:
        """A request was answered: whatever failed before is over."""
        self._failures = 0

    def begin(self) -> None:
        """A request is made."""
        self._busy += 1

    def end(self) -> None:
        """A request has ended. A server that lets several of them run out of time is ended."""
        self._busy -= 1
        connection = self.connection
        if connection is not None and connection.timeouts >= MOST_TIMEOUTS:
            connection.log.note(f"left {connection.timeouts} calls in a row without an answer and was ended")
            connection.stop()
        self._rest()

    def _rest(self) -> None:
        """Count the time nobody needs it."""
        self._used = time.monotonic()
        if self._idle is None and self.connection is not None:
            self._wait(self.setting.config.idle_timeout_s)

    def _wait(self, seconds: float) -> None:
        self._idle = asyncio.get_running_loop().call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._idle = None
        if self.connection is None:
            return
        seconds = self.setting.config.idle_timeout_s
        left_s = seconds if self._busy else self._used + seconds - time.monotonic()
        if left_s > 0:
            self._wait(left_s)
        else:
            self.connection.stop()

    async def close(self) -> None:
        """End its process and everything about it."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self.connection is not None:
            self.connection.stop()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])


def make_transport(
    setting: McpServerOptions, launcher: WardenClient, log: ServerLog, older: bool
) -> Transport:
    """A transport to the server, not opened yet; `older` for one that does not know streamable HTTP."""
    config = setting.config
    if config.kind == "stdio":
        if told := warn_unconfined(config, setting.state_dir):
            log.note(told)
        from jaato.plugins.mcp.transports.stdio import StdioTransport, environment_for

        place = Path(config.cwd).expanduser() if config.cwd else Path()
        return StdioTransport(
            [config.command, *config.args],
            setting.workspace / place,
            environment_for(setting.environ, config.env),
            launcher,
            log,
            access_of(config, home_of(setting.environ)),
            setting.sandbox.for_server(
                setting.cache_dir / "mcp-sandbox" / config.identity if setting.cache_dir else None
            ),
        )
    from jaato.plugins.mcp.transports.http import HttpTransport

    return HttpTransport(setting, older=older or config.kind == "sse")
