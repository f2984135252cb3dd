"""The proxy over real sockets: who may ask, what for, and in what bytes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.network.running import OUTSIDE, connect, login, proxy, send, settled, web

from jaato.tools.network import proxy as module
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.network.pinned_connect import CheckedResolver


def test_who_may_ask(tmp_path: Path) -> None:
    """No token, a wrong one, one of a call that is over, two at once and another scheme are 407; a host that was not
    granted is 403, with words that say which and how to ask, and is remembered as refused."""

    async def main() -> None:
        async with proxy() as (made, port):
            grant, over = made.grants.open(["pypi.org"]), made.grants.open(["*"])
            over.close()
            wrong = [
                "",
                login("x"),
                login(""),
                login(over),
                login(grant) * 2,
                "Proxy-Authorization: Bearer x\r\n",
            ]
            wrong += [
                f"Proxy-Authorization: Basic {grant.token}\r\n",
                "Proxy-Authorization: Basic \u00e4\r\n",
            ]
            for header in wrong:
                answer = await send(port, connect("pypi.org:443", header))
                assert answer.startswith(b"HTTP/1.1 407 "), header
                assert b"Proxy-Authenticate: Basic" in answer
            for target in ("evil.example:443", "pypi.org:22", "evil.example:443"):
                answer = await send(port, connect(target, login(grant)))
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert target.removesuffix(":443").encode() in answer
                assert b"--allow-domain" in answer
            assert grant.refused == ["evil.example:443", "pypi.org:22"]
            answer = await send(
                port, f"GET http://evil.example/ HTTP/1.1\r\nHost: pypi.org\r\n{login(grant)}\r\n"
            )
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert grant.refused[-1] == "evil.example:80"

    asyncio.run(main())


CLOSED = ["127.0.0.1", "2130706433", "0x7f.1", "0177.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "10.0.0.1",
          "169.254.169.254", "192.168.1.1", "100.100.100.200", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
          "[fe80::1]", "0.0.0.0", "localhost", "LOCALHOST.", "localhost.", "224.0.0.1"]  # fmt: skip


@pytest.mark.parametrize("host", CLOSED)
def test_private_addresses_are_closed_however_written(host: str) -> None:
    """With every public host granted, an address of this machine, of a private network or of a cloud's secrets is 403."""

    async def main() -> None:
        async with proxy() as (made, port):
            grant = made.grants.open(["*"])
            for request in (
                connect(f"{host}:80", login(grant)),
                f"GET http://{host}/ HTTP/1.1\r\n{login(grant)}\r\n",
            ):
                answer = await send(port, request)
                assert answer.startswith(b"HTTP/1.1 403 "), answer
                assert b"allow_hosts" in answer
            assert grant.refused

    asyncio.run(main())


def test_the_checked_address_is_the_one_that_is_dialed(tmp_path: Path) -> None:
    """A name is looked up once for each connection: where it leads to a closed address the second time, the first
    connection went to the first address and the second is refused; one closed address among open ones is enough."""
    asked: list[str] = []
    answers = [[OUTSIDE], ["127.0.0.9"], [OUTSIDE, "10.0.0.1"]]

    async def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    (tmp_path / "page").write_text("hello")

    async def main() -> None:
        with web(tmp_path) as site:
            dialer = CheckedResolver(AllowedHosts.of([OUTSIDE]), resolve)
            async with proxy(dialer=dialer) as (made, port):
                grant = made.grants.open([f"rebind.example:{site}"])
                line = f"GET http://ReBind.example.:{site}/page HTTP/1.1\r\n{login(grant)}\r\n"
                assert (await send(port, line)).endswith(b"hello")
                assert (await send(port, line)).startswith(b"HTTP/1.1 403 ")
                assert (await send(port, line)).startswith(b"HTTP/1.1 403 ")
        assert asked == ["rebind.example"] * 3

    asyncio.run(main())


HEADS = {
    "no http": b"hello\r\n\r\n",
    "binary": bytes(range(256)) + b"\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/0.9": b"GET http://pypi.org/\r\n\r\n",
    "obs-fold": b"GET http://pypi.org/ HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    "bare lf": b"GET http://pypi.org/ HTTP/1.1\nHost: x\n\r\n\r\n",
    "bare cr": b"GET http://pypi.org/ HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "nul": b"GET http://pypi.org/ HTTP/1.1\r\nHost: x\0\r\n\r\n",
    "space before colon": b"GET http://pypi.org/ HTTP/1.1\r\nHost : x\r\n\r\n",
    "origin form": b"GET / HTTP/1.1\r\nHost: pypi.org\r\n\r\n",
    "https": b"GET https://pypi.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "ftp": b"GET ftp://pypi.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "user in url": b"GET http://a@pypi.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST http://pypi.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length and chunks": b"POST http://pypi.org/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "no port": b"CONNECT pypi.org HTTP/1.1\r\n\r\n",
    "nul in host": b"CONNECT pypi.org\0.evil.example:443 HTTP/1.1\r\n\r\n",
    "not utf-8": b"CONNECT pypi.org\xff:443 HTTP/1.1\r\n\r\n",
    "headers": b"GET http://pypi.org/ HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n",
    "one long header": b"GET http://pypi.org/ HTTP/1.1\r\nA: " + b"a" * 33_000 + b"\r\n\r\n",
    "long, no end": b"GET http://pypi.org/" + b"a" * 200_000,
    "cut off": b"GET http://pypi.org/ HTTP/1.1\r\nHost",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_none_is_refused(name: str) -> None:
    """What is malformed, ambiguous or too large is answered with 400 or 431, or cut off, and reaches nobody."""

    async def main() -> None:
        async with proxy("*") as (made, port):
            grant = made.grants.open(["*"])
            first, _, rest = HEADS[name].partition(b"\r\n")
            data = first + b"\r\n" + login(grant).encode() + rest if rest else HEADS[name]
            answer = await send(port, data, half_close=True)
            assert not answer or answer.split()[1] in (b"400", b"431"), answer
            if name != "long, no end":
                assert answer

    asyncio.run(main())


def test_a_slow_head_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes a byte at a time has as long as one that does not come: 408, and the connection is closed."""
    monkeypatch.setattr(module, "HEAD_WITHIN_S", 0.5)

    async def main() -> None:
        async with proxy() as (made, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begun = time.monotonic()
            for byte in b"CONNECT pypi.org:443 HTTP/1.1":
                writer.write(bytes([byte]))
                await asyncio.sleep(0.03)
            assert b" 408 " in await reader.readline()
            assert time.monotonic() - begun < 9  # without the setting of this test it is 10
            writer.close()
            silent, other = await asyncio.open_connection("127.0.0.1", port)
            assert b" 408 " in await silent.readline()
            other.close()
            await settled(made)

    asyncio.run(main())
