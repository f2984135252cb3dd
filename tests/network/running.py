"""Confined commands of a session, a server outside, and a proxy on a listener of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jaato.protocol.specs import SandboxAccess
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.network.pinned_connect import CheckedResolver
from jaato.tools.network.proxy import NetworkGrant, Proxy
from jaato.tools.processes.command import Command, CommandLimits, find_shell
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Confinement, Sandbox

WRITE = SandboxAccess("workspace-write")
OUTSIDE = "127.0.0.2"
"""Where servers of these tests are: an address of the machine that no command takes for its own loopback."""


@dataclass
class Done:
    """How a command ended."""

    code: int | None
    output: str
    confinement: Confinement

    @property
    def refused(self) -> list[str]:
        return self.confinement.refused


@dataclass
class Session:
    """A sandbox and the launcher of one plugin."""

    workspace: Path
    allow_hosts: Sequence[str] = (OUTSIDE,)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))  # noqa: TID251

    def __post_init__(self) -> None:
        self.sandbox = Sandbox(self.workspace, environ=self.environ, allow_hosts=self.allow_hosts)
        self.launcher = WardenClient()

    async def run(
        self,
        command: str,
        access: SandboxAccess | None = WRITE,
        *,
        session: str = "s1",
        launcher: WardenClient | None = None,
        seen: list[str] | None = None,
    ) -> Done:
        """Run a command to its end; `seen` is told its output as it comes."""
        used = launcher or self.launcher
        output = seen if seen is not None else []
        confinement = await self.sandbox.confine(access, self.workspace, session, used)
        running = Command(
            [find_shell(), "-c", command],
            self.workspace,
            self.environ,
            limits=CommandLimits(),
            show=output.append,
            confinement=confinement,
        )
        ended = await running.run(used)
        assert ended.reason != "failure", ended.stuck
        return Done(ended.code, (ended.head + ended.tail).decode("utf-8", "replace"), running.confinement)

    @asynccontextmanager
    async def background(
        self, command: str, *args: Any, until: str, **more: Any
    ) -> AsyncIterator[asyncio.Task[Done]]:
        """A command that goes on meanwhile, from when it has printed `until`."""
        seen: list[str] = []
        task = asyncio.create_task(self.run(command, *args, seen=seen, **more))
        while until not in "".join(seen) and not task.done():
            await asyncio.sleep(0.02)
        assert not task.done(), task.result()
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def close(self) -> None:
        self.launcher.close()
        self.sandbox.close()


def granted(*domains: str) -> SandboxAccess:
    """An access with these hosts."""
    return SandboxAccess("workspace-write", domains=domains)


class Files(SimpleHTTPRequestHandler):
    """A folder over HTTP; what is posted comes back."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = b""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def web(folder: Path, tls: Any = None, host: str = OUTSIDE) -> Iterator[int]:
    """A server outside of any sandbox with the files of a folder; its port."""

    class Here(Files):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, directory=str(folder), **more)

    class Server(ThreadingHTTPServer):
        request_queue_size = 256  # five, the default, drops connections of a crowd

    server = Server((host, 0), Here)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def proxy(
    *allow_hosts: str, environ: Mapping[str, str] | None = None, dialer: CheckedResolver | None = None
) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy on a listener of this process's network, and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    made = Proxy(listener, dialer or CheckedResolver(AllowedHosts.of(allow_hosts)), environ or {})
    await made.open()
    try:
        yield made, listener.getsockname()[1]
    finally:
        await made.close()


def login(grant: NetworkGrant | str) -> str:
    """The header with a grant's credentials."""
    token = grant if isinstance(grant, str) else grant.token
    return f"Proxy-Authorization: Basic {b64encode(f'call:{token}'.encode()).decode()}\r\n"


async def send(port: int, data: bytes | str, *, half_close: bool = False) -> bytes:
    """What comes back until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data if isinstance(data, bytes) else data.encode())
        await writer.drain()
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def connect(target: str, header: str = "") -> str:
    """A request for a tunnel."""
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{header}\r\n"


async def settled(made: Proxy) -> None:
    """Wait until the proxy has no connection left."""
    async with asyncio.timeout(60):
        while made.connections:
            await asyncio.sleep(0.01)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What still comes; nothing where the other end has cut the connection off."""
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""
