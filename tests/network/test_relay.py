"""What goes through the proxy: whole, alone, within bounds, and no longer than its call."""

from __future__ import annotations

import asyncio
import os
import socket
from base64 import b64encode
from pathlib import Path

import pytest
from tests.network.running import OUTSIDE, connect, login, proxy, rest, send, settled, web
from tests.providers.server import tunnel

from jaato.tools.network import proxy as module


def test_plain_http_goes_to_the_named_host_alone(tmp_path: Path) -> None:
    """A request is sent on with the host of its URL, without the credentials and connection headers; bodies with a length
    and in chunks arrive whole, and a second request behind the first reaches nobody."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            async with asyncio.timeout(0.3):
                while data := await reader.read(100):
                    seen[-1] += data
        except TimeoutError:
            pass
        writer.write(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
        )
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, OUTSIDE, 0)
        site = server.sockets[0].getsockname()[1]
        async with proxy(OUTSIDE) as (made, port):
            grant = made.grants.open([f"{OUTSIDE}:{site}"])
            head = f"POST http://{OUTSIDE}:{site}/p?q#f HTTP/1.1\r\nHost: evil.example\r\nConnection: X-Drop\r\nX-Drop: 1\r\n"
            head += f"X-Keep: 2\r\nUpgrade: h2c\r\n{login(grant)}"
            smuggled = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
            answer = await send(port, f"{head}Content-Length: 3\r\n\r\nabc{smuggled}")
            chunks = "2\r\nab\r\n1;x=y\r\nc\r\n0\r\nTrailer: x\r\n\r\n"
            await send(port, f"{head}Transfer-Encoding: chunked\r\n\r\n{chunks}{smuggled}")
            assert answer.endswith(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            wrong = await send(port, f"{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n")
            assert wrong.startswith(b"HTTP/1.1 400 ")
        server.close()
        await server.wait_closed()
        first = f"POST /p?q HTTP/1.1\r\nHost: {OUTSIDE}:{site}\r\nConnection: close\r\nX-Keep: 2\r\n".encode()
        assert seen[0] == first + b"Content-Length: 3\r\n\r\nabc"
        assert seen[1] == first + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        assert all(b"evil" not in one for one in seen)

    asyncio.run(main())


def test_a_tunnel_carries_both_ways_and_each_end_closes_on_its_own() -> None:
    """A hundred megabytes come back whole through a tunnel, no faster than they are read; the server reads the end of what
    the client sent, and can still answer."""
    size = 128 << 20

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write(b"end")
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(echo, OUTSIDE, 0)
        site = server.sockets[0].getsockname()[1]
        async with proxy(OUTSIDE) as (made, port):
            grant = made.grants.open([f"{OUTSIDE}:{site}"])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(connect(f"{OUTSIDE}:{site}", login(grant)).encode() + b"early")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(5) == b"early"
            sending = asyncio.create_task(pour(writer, size))
            await asyncio.sleep(0.3)
            assert not sending.done(), "what nobody reads is not taken"
            got = await drink(reader)
            await sending
            assert got == (size, b"end")
            writer.close()
            await settled(made)
        server.close()
        await server.wait_closed()

    asyncio.run(main())


async def pour(writer: asyncio.StreamWriter, size: int) -> None:
    """Send so many bytes, then the end."""
    for _ in range(size >> 16):
        writer.write(bytes(1 << 16))
        await writer.drain()
    writer.write_eof()


async def drink(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """How many bytes come before the last three, and those."""
    total, last = 0, b""
    while data := await reader.read(1 << 16):
        total, last = total + len(data), (last + data)[-3:]
    return total - 3, last


def test_two_hundred_connections_at_once(tmp_path: Path) -> None:
    """Two hundred tunnels open at once all work; beyond the bound a connection is closed at once, and when those are
    gone there is room again; no descriptor is left."""
    (tmp_path / "page").write_text("hello")

    async def one(port: int, target: str, header: str, gate: asyncio.Event) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(connect(target, header).encode())
            await reader.readuntil(b"\r\n\r\n")
            await gate.wait()
            writer.write(f"GET /page HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode())
            return await reader.read(-1)
        finally:
            writer.close()

    async def main() -> None:
        with web(tmp_path) as site:
            async with proxy(OUTSIDE) as (made, port):
                target, gate = f"{OUTSIDE}:{site}", asyncio.Event()
                header = login(made.grants.open([target]))
                tasks = [asyncio.create_task(one(port, target, header, gate)) for _ in range(200)]
                async with asyncio.timeout(60):
                    while made.connections < 200:
                        await asyncio.sleep(0.05)
                idle = [
                    await asyncio.open_connection("127.0.0.1", port)
                    for _ in range(module.MAX_CONNECTIONS - 200)
                ]
                while made.connections < module.MAX_CONNECTIONS:
                    await asyncio.sleep(0.01)
                assert await send(port, connect(target, header)) == b""
                for _, writer in idle:
                    writer.close()
                gate.set()
                answers = await asyncio.gather(*tasks)
                assert all(answer.endswith(b"hello") for answer in answers)
                await settled(made)
                assert b" 200 " in await send(port, f"GET http://{target}/page HTTP/1.1\r\n{header}\r\n")
            assert not module.EVERY

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_ended_call_has_no_connections(tmp_path: Path) -> None:
    """Closing a grant ends its tunnels and nobody else's."""

    async def main() -> None:
        listener = socket.create_server((OUTSIDE, 0))
        target = f"{OUTSIDE}:{listener.getsockname()[1]}"
        async with proxy(OUTSIDE) as (made, port):
            grants = [made.grants.open([target]) for _ in range(2)]
            ends = []
            for grant in grants:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(connect(target, login(grant)).encode())
                await reader.readuntil(b"\r\n\r\n")
                ends.append((reader, writer))
            grants[0].close()
            grants[0].close()
            async with asyncio.timeout(60):
                assert await rest(ends[0][0]) == b""
            assert made.connections == 1
            assert len(made.grants) == 1
            for _, writer in ends:
                writer.close()
        listener.close()

    asyncio.run(main())


def test_an_idle_tunnel_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tunnel in which nothing moves is closed after a while."""
    from jaato.tools.network import proxy_relay

    monkeypatch.setattr(proxy_relay, "IDLE_S", 0.3)

    async def main() -> None:
        listener = socket.create_server((OUTSIDE, 0))
        target = f"{OUTSIDE}:{listener.getsockname()[1]}"
        async with proxy(OUTSIDE) as (made, port):
            data = await send(port, connect(target, login(made.grants.open([target]))))
            assert data in (b"", b"HTTP/1.1 200 Connection established\r\n\r\n")
            await settled(made)
        listener.close()

    asyncio.run(main())


def test_hosts_behind_the_users_own_proxy(tmp_path: Path) -> None:
    """With `HTTPS_PROXY` in jaato's environment a granted host is reached through it, with its password and not the
    call's; what it refuses is 502, and inner names stay closed."""

    async def main() -> None:
        (tmp_path / "page").write_text("hello")
        with web(tmp_path, host="127.0.0.1") as site:
            async with tunnel(site) as upstream, tunnel(site, refuse=403) as closed:
                for theirs, status in ((upstream, b"200"), (closed, b"502")):
                    environ = {"HTTPS_PROXY": theirs.url.replace("//", "//me:secret@")}
                    async with proxy(OUTSIDE, environ=environ) as (made, port):
                        grant = made.grants.open(["*", "intranet"])
                        answer = await send(port, connect("model.test:443", login(grant)), half_close=True)
                        assert answer.split()[1] == status
                        assert (await send(port, connect("intranet:443", login(grant)))).split()[1] == b"403"
                    assert theirs.asked == ["CONNECT model.test:443"]
                    assert (
                        theirs.headers[0]["proxy-authorization"]
                        == f"Basic {b64encode(b'me:secret').decode()}"
                    )

    asyncio.run(main())


def test_plain_http_through_the_users_own_proxy(tmp_path: Path) -> None:
    """With `HTTP_PROXY` a plain request goes to it whole, with its own password."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        environ = {"http_proxy": f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"}
        async with proxy(environ=environ) as (made, port):
            header = login(made.grants.open(["model.test"]))
            assert (await send(port, f"GET http://model.test/x HTTP/1.1\r\n{header}\r\n")).endswith(b"ok")
        server.close()
        await server.wait_closed()
        head = b"GET http://model.test/x HTTP/1.1\r\nHost: model.test\r\nConnection: close\r\nProxy-Authorization: Basic "
        assert seen == [head + b64encode(b"me:secret") + b"\r\n\r\n"]

    asyncio.run(main())
