"""An MCP server as a sandboxed process: bounded messages over two pipes, its errors kept, its end always reached."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import mcp_types as types
import msgspec
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from jaato.errors import ToolError
from jaato.plugins.mcp.server_log import ServerLog
from jaato.plugins.mcp.session import RateLimiter
from jaato.protocol.specs import SandboxAccess
from jaato.tools.processes.command import Command, CommandLimits, Ended
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.processes.streams import Streams, open_pipes

MAX_MESSAGE_BYTES = 32 << 20
READ_BYTES = 1 << 16
BYTES_A_SECOND = 32 << 20
LINES_A_SECOND = 10_000
"""How fast a server is read; a faster one has to wait."""
JUNK_BYTES = 64 << 20
"""How much that is no message a server may print before it is given up."""
MAX_NOTIFICATIONS_PER_S = 400
"""Notifications and requests of the server that are heeded; answers always are."""
WAITING = 32
"""Messages to a server that wait until it reads."""
UNREAD = 512
"""Messages of a server that wait to be dispatched: more than are heeded in a second."""
READS_AT_END = 64
"""How often the pipe of a process that has ended is read."""
LIMITS = CommandLimits(bound_bytes=8_192, grace_s=1.0)
EXIT_WITHIN_S = 1.0
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

Messages = MemoryObjectReceiveStream[SessionMessage | Exception]


def environment_for(environ: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """What a server's process gets: what every program needs, and what is configured for it."""
    names = {*PASSED_ON, *PROXIES, *map(str.lower, PROXIES)}
    kept = {name: value for name, value in environ.items() if name in names or name.startswith(PASSED_KINDS)}
    return kept | dict(configured)


class Unreadable(Exception):
    """Bytes that are no message; `id` is that of the answer they should have been, None where it may be any."""

    def __init__(self, what: str, id_: types.RequestId | None = None) -> None:
        super().__init__(what)
        self.id = id_


class MessageReader:
    """Reads what a server prints, message by message; what cannot be read fails the request it answers at once."""

    def __init__(self, fd: int, log: ServerLog) -> None:
        self._send, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](UNREAD)
        self.pending: set[types.RequestId] = set()
        """The ids of requests that wait for their answers."""
        self.over = anyio.Event()
        self._fd = fd
        self._log = log
        self._bytes = RateLimiter(BYTES_A_SECOND, BYTES_A_SECOND)
        self._lines = RateLimiter(LINES_A_SECOND, LINES_A_SECOND)
        self._unasked = RateLimiter(MAX_NOTIFICATIONS_PER_S, MAX_NOTIFICATIONS_PER_S)
        self._reads_left = math.inf
        self._has_waited = False
        self._waiting = anyio.CancelScope()
        self._parts: list[bytes] = []
        self._held = self._junk = 0
        self._discards = False

    async def run(self) -> None:
        """Read until the server says no more, or only what is no message."""
        try:
            while (data := await self._read()) and self._junk <= JUNK_BYTES:
                if not self._discards:
                    await self._take(data)
                pause_s = max(self._lines.wait_s(data.count(b"\n")), self._bytes.wait_s(len(data)))
                if pause_s or not self._has_waited:  # a server that never lets us wait gives way to others
                    await anyio.sleep(pause_s)
            if self._junk > JUNK_BYTES:
                self._log.note(f"printed {JUNK_BYTES >> 20} MB that are no messages and was given up")
        finally:
            self.over.set()
            self._send.close()

    def end(self) -> None:
        """The process has ended: what the pipe still holds is read, and no more is waited for."""
        self._reads_left = READS_AT_END
        self._waiting.cancel()

    def discard(self) -> None:
        """Forget what comes from now on: a server that writes can then read that it should end."""
        self._discards = True
        self.messages.close()

    async def _read(self) -> bytes:
        self._has_waited = False
        while self._reads_left > 0:
            self._reads_left -= 1
            try:
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                if self._reads_left < READS_AT_END:
                    break
                with anyio.CancelScope() as self._waiting:
                    await anyio.wait_readable(self._fd)
                self._has_waited = True
            except OSError:
                break
        return b""

    async def _take(self, data: bytes) -> None:
        """Deliver the lines that are whole; of one that is too long nothing is kept."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join([*self._parts, end])
            fits = self._held <= MAX_MESSAGE_BYTES
            self._parts, self._held = [], 0
            if fits and line.strip():
                await self._take_line(line)
        fitted = self._held <= MAX_MESSAGE_BYTES
        self._held += len(rest)
        if self._held <= MAX_MESSAGE_BYTES:
            self._parts.append(rest)
        elif fitted:
            self._parts = []
            await self._fail(f"sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB", self._held)
        else:
            self._junk += len(rest)

    async def _take_line(self, line: bytes) -> None:
        if not line.lstrip().startswith((b"{", b"[")):
            self._log.note("printed what is no message to its standard output")
            self._junk += len(line)
            return
        try:
            message = message_of(line)
        except Unreadable as error:
            await self._fail(f"sent {error}", len(line), error.id)
            return
        if isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
            if self._unasked.wait_s(1) > 0:
                self._log.note(
                    f"sent more than {MAX_NOTIFICATIONS_PER_S} notifications a second, which were dropped"
                )
                return
        else:
            id_ = None if message.id is None else coerce_request_id(message.id)
            if id_ not in self.pending:
                self._log.note("answered a request that was not made, or was given up")
                self._junk += len(line)
                return
            self.pending.discard(id_)
            self._junk = 0
        await self._deliver(message)

    async def _fail(self, what: str, size: int, id_: types.RequestId | None = None) -> None:
        """Fail the request a message should have answered: that of its id, else the only one there is."""
        self._log.note(what)
        self._junk += size
        if id_ is None and len(self.pending) == 1:
            (id_,) = self.pending
        if id_ is not None and id_ in self.pending:
            self.pending.discard(id_)
            error = types.ErrorData(code=types.PARSE_ERROR, message=f"The server {what}.")
            await self._deliver(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))

    async def _deliver(self, message: types.JSONRPCMessage) -> None:
        item = SessionMessage(message)
        try:
            try:
                self._send.send_nowait(item)
            except anyio.WouldBlock:
                await self._send.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._discards = True  # there is no reader


class StdioTransport:
    """The process and its streams, as the SDK takes them; leaving it ends the process and all that it started."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        launcher: WardenClient,
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

    async def __aenter__(self) -> tuple[Messages, MemoryObjectSendStream[SessionMessage]]:
        confinement = await self._sandbox.confine(self._access, self._cwd, launcher=self._launcher)
        streams = self._streams = open_pipes()
        self._command = Command(
            self._argv,
            self._cwd,
            self._environ,
            limits=LIMITS,
            show=self._log.write,
            streams=streams.theirs,
            confinement=confinement,
        )
        self._reader = MessageReader(streams.output_fd, self._log)
        self._outbox, self._outgoing = anyio.create_memory_object_stream[SessionMessage](WAITING)
        self._writing = anyio.CancelScope()
        self._written = anyio.Event()
        self._tasks = anyio.create_task_group()
        try:
            await self._tasks.__aenter__()
            for task in (self._run, self._reader.run, self._write):
                self._tasks.start_soon(task)
            while not self._command.asking and not self._over.is_set():  # noqa: ASYNC110 a command sends no event
                await anyio.sleep(0.002)
            streams.close_theirs()
        except BaseException:
            await self._finish()
            raise
        return self._reader.messages, self._outbox

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
            self._reader.end()

    async def _write(self) -> None:
        """Write messages as whole lines, in order, however slowly the server reads."""
        assert self._streams is not None
        fd = self._streams.input_fd
        try:
            with self._writing, self._outgoing:
                async for item in self._outgoing:
                    match item.message:
                        case types.JSONRPCRequest(id=id_):
                            self._reader.pending.add(id_)
                        case types.JSONRPCNotification(
                            method="notifications/cancelled", params={"requestId": int() | str() as id_}
                        ):
                            self._reader.pending.discard(id_)
                    await write_all(fd, line_of(item.message))
        except OSError:
            return  # the server reads no more; the closed stream fails the sender
        finally:
            self._written.set()

    async def _finish(self) -> None:
        """End the process: its input first, a signal when that is not heeded, force in the end."""
        streams, tasks = self._streams, self._tasks
        if streams is None or tasks is None:
            return
        self._streams = None
        self._by_us = not self._over.is_set() and not self._reader.over.is_set()
        with anyio.CancelScope(shield=True):
            self._reader.discard()
            self._outbox.close()
            self._writing.cancel()
            await self._written.wait()
            streams.close_input()
            with anyio.move_on_after(LEAVES_WITHIN_S):
                await self._over.wait()
            self._command.stop()
            await self._over.wait()
            await self._reader.over.wait()
            streams.close()
        await tasks.__aexit__(None, None, None)
        self._sandbox.close()

    async def until_over(self) -> None:
        """Wait until the server says no more."""
        await self._reader.over.wait()

    @property
    def failed_immediately(self) -> bool:
        """Whether the process ended by itself, having been started."""
        return self._ended is not None and not self._by_us and not self._ended.stuck

    def explain(self, error: types.ErrorData) -> types.ErrorData:
        """The SDK's error as it is; a pipe has no other to tell."""
        return error

    async def exit_reason(self) -> str:
        """How the process came to its end, as a sentence; empty while it runs, and when it is we who ended it."""
        if self._by_us:
            return ""
        with anyio.move_on_after(EXIT_WITHIN_S):
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


def message_of(line: bytes) -> types.JSONRPCMessage:
    """One line as a message, broken characters in it replaced. Raises `Unreadable`."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = decode_leniently(line)
    if not isinstance(value, dict):
        raise Unreadable(f"a JSON {type(value).__name__} where an object belongs")
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except (ValidationError, RecursionError):
        id_ = value.get("id")
        known = isinstance(id_, int | str) and not isinstance(id_, bool)
        raise Unreadable("an object that is no JSON-RPC message", id_ if known else "") from None


def decode_leniently(line: bytes) -> Any:
    """JSON with broken characters, which are replaced. Raises `Unreadable`."""
    try:
        value = json.loads(line.decode("utf-8", "replace"), parse_constant=refuse_constant)
        return msgspec.json.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError, msgspec.DecodeError):
        raise Unreadable("text that is no JSON") from None


def refuse_constant(name: str) -> float:
    """Refuse NaN and infinities, which are no JSON."""
    raise ValueError(name)


def line_of(message: types.JSONRPCMessage) -> bytes:
    """A message as one line of ASCII, so that half a character in it is no harm."""
    return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"


async def write_all(fd: int, data: bytes) -> None:
    """Write to a pipe that does not block. Raises OSError."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            await anyio.wait_writable(fd)
