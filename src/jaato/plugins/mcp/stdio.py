"""A server as a process: its messages over two pipes, its errors kept, its end always reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from jaato.errors import ToolError
from jaato.plugins.mcp.journal import ServerLog
from jaato.plugins.mcp.lines import Incoming
from jaato.plugins.mcp.outgoing import Outgoing
from jaato.protocol.specs import SandboxAccess
from jaato.tools.processes.command import Command, Limits
from jaato.tools.processes.ended import Ended
from jaato.tools.processes.launch import Launcher
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.processes.streams import Streams, pipes

LIMITS = Limits(bound_bytes=8_192, grace_s=1.0)
LEAVES_WITHIN_S = 1.0
"""How long a server has to end by itself when its input ends."""
PASSED_ON = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
"""Variables a server gets without being configured to; keys and tokens are not among them."""
PASSED_KINDS = ("LC_", "XDG_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def environment_for(environ: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """What a server's process gets: what every program needs, and what is configured for it."""
    names = {*PASSED_ON, *PROXIES, *map(str.lower, PROXIES)}
    kept = {name: value for name, value in environ.items() if name in names or name.startswith(PASSED_KINDS)}
    return kept | dict(configured)


class StdioTransport:
    """The process and its streams, as the SDK takes them; leaving it ends the process and all that it started."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        launcher: Launcher,
        log: ServerLog,
        access: SandboxAccess,
        sandbox: Sandbox,
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._environ = environ
        self._launcher = launcher
        self._log = log
        self._access = access
        self._sandbox = sandbox
        self._streams: Streams | None = None
        self._tasks: TaskGroup | None = None
        self._ended: Ended | None = None
        self._over = anyio.Event()
        self._problem = ""
        self._by_us = False

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        confinement = await self._sandbox.confine(self._access, self._cwd, launcher=self._launcher)
        streams = self._streams = pipes()
        self._command = Command(
            self._argv,
            self._cwd,
            self._environ,
            limits=LIMITS,
            show=self._log.write,
            streams=streams.theirs,
            confinement=confinement,
        )
        self._incoming = Incoming(streams.output_fd, self._log)
        self._outgoing = Outgoing(streams.input_fd, self._incoming)
        self._tasks = anyio.create_task_group()
        try:
            await self._tasks.__aenter__()
            self._tasks.start_soon(self._run)
            while not self._command.asking and not self._over.is_set():  # noqa: ASYNC110 a command tells nobody
                await anyio.sleep(0.002)
            streams.close_theirs()
            self._incoming.begin()
        except BaseException:
            await self._finish()
            raise
        return self._incoming, self._outgoing

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish()

    async def _run(self) -> None:
        try:
            self._ended = await self._command.run(self._launcher)
        except ToolError as error:
            self._problem = str(error)
        finally:
            self._over.set()
            self._incoming.end()

    async def _finish(self) -> None:
        """End the process: its input first, a signal when that is not heeded, force in the end."""
        streams, tasks = self._streams, self._tasks
        if streams is None or tasks is None:
            return
        self._streams = None
        self._by_us = not self._over.is_set() and not self._incoming.ended
        with anyio.CancelScope(shield=True):
            self._incoming.discard()
            self._outgoing.stop()
            streams.close_input()
            with anyio.move_on_after(LEAVES_WITHIN_S):
                await self._over.wait()
            self._command.stop()
            await self._over.wait()
            self._incoming.stop()
            streams.close()
        await tasks.__aexit__(None, None, None)
        self._sandbox.close()

    async def until_over(self) -> None:
        """Until the server says no more."""
        await self._incoming.over.wait()

    @property
    def broke_at_once(self) -> bool:
        """Whether the process ended by itself, having been started."""
        return self._ended is not None and not self._by_us and not self._ended.stuck

    async def how_it_ended(self, within_s: float = 1.0) -> str:
        """How the process came to its end, as a sentence; empty while it runs, and when it is we who ended it."""
        if self._by_us:
            return ""
        with anyio.move_on_after(within_s):
            await self._over.wait()
        if self._problem:
            return self._problem
        ended = self._ended
        if ended is None:
            return ""
        if ended.stuck:
            return f"{self._argv[0]} could not be started: {ended.stuck[-1]}."
        match ended:
            case Ended(reason="", code=int() as code) if code < 0:
                return f"Its process was killed by signal {-code}."
            case Ended(reason="", code=int() as code):
                return f"Its process ended with exit code {code}."
            case Ended(reason="stopped"):
                return "Its process was stopped."
        return f"Its process ended ({ended.reason or 'no reason known'})."
