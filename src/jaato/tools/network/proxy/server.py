"""The forward proxy of a session: `CONNECT` and plain HTTP, to the hosts that the call was granted.

TLS is not taken apart: inside a tunnel a program may name another host than it asked for, where the server of the granted
one answers for it too (domain fronting).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Mapping

from jaato.errors import JaatoError
from jaato.tools.network.addresses import AddressRefused, Url
from jaato.tools.network.pinned_connect import CheckedResolver
from jaato.tools.network.proxy.allowlist import NetworkGrant, ProxyAllowlist
from jaato.tools.network.proxy.relay import BUFFER_BYTES, Relay, Upstream, open_upstream
from jaato.tools.network.proxy.request import MAX_HEAD_BYTES, Head, RequestRefused, parse_head
from jaato.tools.processes.warden.network_namespace import BACKLOG

MAX_CONNECTIONS = 256
"""Of one session; more are closed at once."""
MOST_IN_ALL = max(64, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20) // 4)
"""Of all sessions: a connection has two descriptors, and the rest of the process needs some too."""
EVERY: set[asyncio.Task[None]] = set()
"""The connections of all sessions; every proxy of a process runs on one loop."""
HEAD_WITHIN_S = 10.0
CLOSE_WITHIN_S = 2.0
REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}
UNKNOWN_CALL = (
    "This command was not given any hosts, or its proxy variables were changed: the network is reached with the "
    "credentials in HTTP_PROXY and HTTPS_PROXY, which each command has of its own."
)
LOG = logging.getLogger(__name__)


class Proxy:
    """Serves one listener. `open` and `close` run on the loop it serves on; `grants` is used from any thread.

    `environ` may name the user's own proxy, through which hosts are then reached.
    """

    def __init__(self, listener: socket.socket, dialer: CheckedResolver, environ: Mapping[str, str]) -> None:
        self._listener = listener
        self._dialer = dialer
        self._environ = environ
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.grants = ProxyAllowlist(self._end)

    async def open(self) -> None:
        """Accept connections."""
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(
            self._accept, sock=self._listener, limit=BUFFER_BYTES, backlog=BACKLOG
        )

    async def close(self) -> None:
        """Accept nothing more, and end every connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._tasks)

    def _end(self, grant: NetworkGrant) -> None:
        """End the connections of a call that is over."""
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in grant.connections])
            except RuntimeError:
                pass  # the loop was closed just now, with all that ran on it

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CONNECTIONS or len(EVERY) >= MOST_IN_ALL:
            writer.transport.abort()
            return
        self._tasks.add(task)
        EVERY.add(task)
        try:
            await self._serve(reader, writer, task)
        except RequestRefused as refused:
            await self._answer(reader, writer, refused)
        except OSError:
            pass  # either end has gone
        except asyncio.CancelledError:
            pass  # its call is over, or the session; nothing awaits this task's result but `close`
        except Exception:
            LOG.exception("A connection of the proxy failed")
        finally:
            self._tasks.discard(task)
            EVERY.discard(task)
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        """One request, and what it opens, to its end."""
        data = await read_head(reader)
        if not data:
            return
        head = parse_head(data)
        given = head.values(b"proxy-authorization")
        grant = self.grants.find(given[0]) if len(given) == 1 else None
        if grant is None:
            raise RequestRefused(407, UNKNOWN_CALL)
        grant.connections.add(task)
        try:
            upstream = await self._reach(head, grant)
            relay = Relay(reader, writer, upstream)
            try:
                await (relay.tunnel() if head.url is None else relay.request(head))
            finally:
                relay.close()
        finally:
            grant.connections.discard(task)

    async def _reach(self, head: Head, grant: NetworkGrant) -> Upstream:
        """A connection to what the request names. Raises `RequestRefused`."""
        host, port = head.host, head.port
        if not grant.domains.covers(host, port):
            grant.refuse(host, port)
            raise RequestRefused(
                403,
                f"{host}:{port} is not among the hosts that this command was granted. Ask for it: the same command "
                f"with the domain {host if port in (80, 443) else f'{host}:{port}'}; the user can also start jaato with "
                "--allow-domain.",
            )
        url = head.url or Url("https", host, port, "/")
        try:
            return await open_upstream(
                url, tunnel=head.url is None, dialer=self._dialer, environ=self._environ
            )
        except AddressRefused as error:
            grant.refuse(host, port)
            raise RequestRefused(403, str(error)) from None
        except TimeoutError:
            raise RequestRefused(504, f"{host}:{port} did not answer in time.") from None
        except OSError as error:
            raise RequestRefused(
                502, f"{host}:{port} cannot be reached: {error.strerror or error}."
            ) from None
        except JaatoError as error:
            raise RequestRefused(502, f"{host}:{port} cannot be reached: {error}") from None

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: RequestRefused
    ) -> None:
        """Answer, and wait for a moment until the other end has read it."""
        body = f"jaato: {refused}\n".encode()
        lines = [
            f"HTTP/1.1 {refused.status} {REASONS[refused.status]}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "Proxy-Connection: close",
        ]
        lines += ['Proxy-Authenticate: Basic realm="jaato"'] if refused.status == 407 else []
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                writer.write("\r\n".join((*lines, "", "")).encode("ascii") + body)
                writer.write_eof()
                while await reader.read(BUFFER_BYTES):
                    pass
        except (OSError, asyncio.CancelledError):
            pass


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The bytes of a request up to the empty line; nothing where the other end asked nothing. Raises `RequestRefused`."""
    try:
        async with asyncio.timeout(HEAD_WITHIN_S):
            data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise RequestRefused(431, f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise RequestRefused(400, "The request ended in the middle of its head.") from None
        return b""
    except TimeoutError:
        raise RequestRefused(
            408, f"The head of the request was not there after {HEAD_WITHIN_S:g} s."
        ) from None
    if len(data) > MAX_HEAD_BYTES:
        raise RequestRefused(431, f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.")
    return data
