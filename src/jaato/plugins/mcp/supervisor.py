"""The supervisor of one MCP server: lazy start, restart after a failure with backoff, shutdown when idle."""

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
from jaato.protocol.events import now
from jaato.settings import home_of
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from jaato.plugins.mcp.client import McpClient
    from jaato.plugins.mcp.session import Transport

State = Literal["configured", "known", "starting", "started", "failed"]
BACKOFF_S = 1.0
MAX_BACKOFF_S = 300.0
WAITED_BACKOFF_S = 1.5
"""A call waits for a restart this close; with a longer backoff it fails and says so."""
STABLE_AFTER_S = 60.0
"""A server that has run this long starts again without the backoff of earlier failures."""
MAX_TIMEOUTS = 3
"""Consecutive calls that time out after which the server is stopped, to be restarted by the next call."""


class ServerSupervisor:
    """Starts, restarts and stops one server. Runs on the pool's event loop; every method is called there."""

    def __init__(self, setting: McpServerOptions, launcher: WardenClient) -> None:
        self.setting = setting
        self.users: set[object] = set()
        self.log = ServerLog(setting.log, setting.mask)
        self.manifest: Manifest | None = None
        self.watchers: dict[object, Callable[[Manifest], None]] = {}
        self.failure = ""
        self.last_error = ""
        """The last failure, also when the server runs again."""
        self.last_start = ""
        """When the server was started last."""
        self.connection: McpClient | None = None
        self._launcher = launcher
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[McpClient] | None = None
        self._failures = 0
        self._not_before = 0.0
        self._started_at = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._last_used = 0.0

    @property
    def state(self) -> State:
        """The state of the server."""
        if self._starting is not None:
            return "starting"
        if self.connection is not None and not self.connection.over.is_set():
            return "started"
        if self.failure:
            return "failed"
        return "known" if self.manifest is not None else "configured"

    async def connect(self, *, skip_backoff: bool = False) -> McpClient:
        """The connection to the running server, started or restarted if needed. Raises `ServerFault`, without an attempt
        during the backoff after failures."""
        connection = self.connection
        if connection is not None and not connection.over.is_set():
            return connection
        if self._starting is None:
            wait_s = 0.0 if skip_backoff else max(self._not_before - time.monotonic(), 0.0)
            if wait_s > WAITED_BACKOFF_S:
                raise ServerFault(
                    f"{self.failure} It has failed {self._failures} times in a row and is tried again in "
                    f"{wait_s:.0f} s; mcp_connect tries it at once."
                )
            self._starting = asyncio.create_task(self._start(wait_s))
            self._starting.add_done_callback(self._start_ended)
        return await asyncio.shield(self._starting)

    def _start_ended(self, task: asyncio.Task[McpClient]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # raised where the start is awaited

    async def _start(self, wait_s: float) -> McpClient:
        """Start the server. One that fails at the newer handshake is retried once with the older one."""
        await asyncio.sleep(wait_s)
        known = self.manifest.protocol_version if self.manifest else self.setting.last_protocol_version
        handshake_first = bool(known) and known < "2026"
        try:
            transport = self._make_transport()
            try:
                return await self._open(transport, handshake_first)
            except ServerFault:
                if handshake_first or not transport.failed_immediately:
                    raise
            older = self.setting.config.kind != "stdio"
            return await self._open(self._make_transport(older=older), handshake_first=True)
        except ServerFault as error:
            self._record_failure(str(error))
            raise
        except JaatoError as error:
            self._record_fault(error)  # a login is missing; no backoff
            raise

    def _make_transport(self, *, older: bool = False) -> Transport:
        self.log = ServerLog(self.setting.log, self.setting.mask)
        try:
            return make_transport(self.setting, self._launcher, self.log, older)
        except JaatoError as error:
            raise ServerFault(str(error)) from None

    async def _open(self, transport: Transport, handshake_first: bool) -> McpClient:
        from jaato.plugins.mcp.client import McpClient

        connection = McpClient(
            self.setting.config,
            transport,
            self.log,
            workspace=self.setting.workspace,
            handshake_first=handshake_first,
            on_manifest=self._publish_manifest,
        )
        self._task = asyncio.create_task(self._run(connection))
        try:
            await connection.ready
        except asyncio.CancelledError:
            connection.stop()
            raise
        self.connection = connection
        self._started_at = time.monotonic()
        self.last_start = now()
        self.failure = ""
        self._start_idle_timer()
        return connection

    async def _run(self, connection: McpClient) -> None:
        await connection.run()
        if self.connection is connection:
            self.connection = None
            if connection.fault is not None:
                self._record_fault(connection.fault)
            elif not connection.stopped:
                if time.monotonic() - self._started_at >= STABLE_AFTER_S:
                    self._failures = 0
                self._record_failure(f"The MCP server {self.setting.config.name} ended. {connection.why}")

    def _record_fault(self, error: JaatoError) -> None:
        """Record an error that needs the user. Whether a login is needed is stored with the logins."""
        self.failure = "" if error.code == "login_needed" else str(error)
        self.last_error = str(error)

    def _record_failure(self, why: str) -> None:
        """Record a failure; from the second in a row, the backoff doubles."""
        self.failure = self.last_error = why
        self._failures += 1
        if self._failures > 1:
            backoff_s = min(BACKOFF_S * 2 ** (self._failures - 1), MAX_BACKOFF_S)
            self._not_before = time.monotonic() + backoff_s

    def _publish_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        for watch in list(self.watchers.values()):
            watch(manifest)

    def reset_backoff(self) -> None:
        """Forget earlier failures: a request was answered."""
        self._failures = 0

    def begin_request(self) -> None:
        """Count a request that begins."""
        self._requests += 1

    def end_request(self) -> None:
        """Count a request that ends; stop a server whose calls keep timing out."""
        self._requests -= 1
        connection = self.connection
        if connection is not None and connection.timeouts >= MAX_TIMEOUTS:
            connection.log.note(f"did not answer {connection.timeouts} calls in a row and was stopped")
            connection.stop()
        self._start_idle_timer()

    def _start_idle_timer(self) -> None:
        self._last_used = time.monotonic()
        if self._idle_timer is None and self.connection is not None:
            self._schedule_idle_check(self.setting.config.idle_timeout_s)

    def _schedule_idle_check(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        self._idle_timer = None
        if self.connection is None:
            return
        seconds = self.setting.config.idle_timeout_s
        left_s = seconds if self._requests else self._last_used + seconds - time.monotonic()
        if left_s > 0:
            self._schedule_idle_check(left_s)
        else:
            self.connection.stop()

    async def close(self) -> None:
        """Stop the server and wait until its process has ended."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
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
    """The transport to a server, not opened yet; `older` for HTTP+SSE, the one before streamable HTTP."""
    config = setting.config
    if config.kind == "stdio":
        if warning := warn_unconfined(config, setting.state_dir):
            log.note(warning)
        from jaato.plugins.mcp.stdio_transport import StdioTransport, environment_for

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
    from jaato.plugins.mcp.http_transport import HttpTransport

    return HttpTransport(setting, older=older or config.kind == "sse")
