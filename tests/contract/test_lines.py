"""Lines of HTTP/1.1: what others could read otherwise, what does not end, and who goes away."""

from __future__ import annotations

import json
import select
import socket
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.contract import waiting
from tests.contract.serving import Opened, run, run_both
from tests.server.serving import served

from jaato.server.http import connection as http_connection
from jaato.server.registry import application
from jaato.server.registry import application as listen
from jaato.testing.arp.peer import Reply, Served, fails, read, refuses, result_of
from jaato.tools.tool import tool

CALL = json.dumps({"args": {"text": "x"}}).encode()
SIZE = f"content-length: {len(CALL)}"
CHUNKED = b"%x\r\n%b\r\n0\r\n" % (len(CALL), CALL)
ECHO = "/v1/tools/echo:invoke"
LIST = "/v1/tools"
MANY = 6
"""Answers that are more than a system keeps for who does not read."""

BROKEN: dict[str, tuple[str, ...]] = {
    "a length and chunks": (SIZE, "transfer-encoding: chunked"),
    "chunks and a length": ("transfer-encoding: chunked", SIZE),
    "two lengths": (SIZE, "content-length: 3"),
    "a length below nothing": ("content-length: -3",),
    "a length with a sign": (f"content-length: +{len(CALL)}",),
    "a length in hexadecimal": ("content-length: 0x17",),
    "no length": ("content-length: ",),
    "a length beyond all numbers": (f"content-length: {'9' * 30}",),
    "another coding before chunks": ("transfer-encoding: gzip, chunked",),
    "another coding": ("transfer-encoding: identity",),
    "chunks by another name": ("transfer-encoding: xchunked",),
    "codings twice": ("transfer-encoding: chunked", "transfer-encoding: identity"),
    "a space before the colon": (f"content-length : {len(CALL)}",),
}
CHUNKS = (b"-1\r\n", b"0x17\r\n", b"\r\n", b"zz\r\n", b"17\r\nfar too much before its end", b"1\r\nxy\r\n")


def ended(line: socket.socket) -> bool:
    """Whether nothing more comes."""
    return line.recv(1) == b""


def told(at: Served, *said: bytes) -> Reply:
    """The answer to bytes, which is the last; what comes behind them is not read."""
    with closing(at.line()) as line:
        for piece in said:
            line.sendall(piece)
        reply = read(line, "POST" if said[0].startswith(b"POST") else "GET")
        assert ended(line), said
        return reply


HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "a folded header": (b"\r\n\r\n", b"\r\nx: a\r\n b\r\n\r\n"),
    "a header folded by a tab": (b"\r\n\r\n", b"\r\nx: a\r\n\tb\r\n\r\n"),
    "an empty header folded": (b"\r\n\r\n", b"\r\nx:\r\n b\r\n\r\n"),
    "a folded request line": (b" HTTP/1.1\r\n", b" HTTP/1.1\r\n x: a\r\n"),
    "lines that end in LF": (b"\r\n", b"\n"),
    "a request line that ends in LF": (b" HTTP/1.1\r\n", b" HTTP/1.1\n"),
    "a header that ends in LF": (b"\r\n\r\n", b"\r\nx: a\ny: b\r\n\r\n"),
    "a head that ends in LF": (b"\r\n\r\n", b"\r\n\n"),
    "a header that ends in CR": (b"\r\n\r\n", b"\r\nx: a\ry: b\r\n\r\n"),
    "a NUL": (b"\r\n\r\n", b"\r\nx: a\0b\r\n\r\n"),
    "no name": (b"\r\n\r\n", b"\r\n: a\r\n\r\n"),
    "no version": (b" HTTP/1.1\r\n", b"\r\n"),
}
"""What is replaced in a good head, and by what; other readers take the result for another request."""


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("piece", [10_000, 1], ids=["whole", "byte by byte"])
def test_a_hostile_head_is_refused(tmp_path: Path, kind: str, piece: int) -> None:
    """At both doors, in whatever pieces it comes, and nothing behind it is answered."""
    old, new = HOSTILE[kind]

    def check(at: Served) -> None:
        good = at.head("GET", LIST)
        data = good.replace(old, new) + good
        refuses(
            told(at, *(data[n : n + piece] for n in range(0, len(data), piece))), 400, "request.invalid_http"
        )

    run_both(tmp_path, check)


@pytest.mark.parametrize("piece", [20_000, 1_000, 7], ids=str)
def test_a_head_in_pieces_is_bounded_the_same(tmp_path: Path, piece: int) -> None:
    """A head without end is refused once it is too large, as one header, as many or as a target; one that fits is read."""

    def sent(at: Served, data: bytes) -> Reply:
        with closing(at.line()) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError):  # it is refused in the middle
                for start in range(0, len(data), piece):
                    line.sendall(data[start : start + piece])
            return read(line)

    def check(at: Served) -> None:
        head = at.head("GET", LIST)[:-2]
        for endless in (b"x: " + b"y" * 60_000, b"x: y\r\n" * 10_000):
            refuses(sent(at, head + endless), 431, "request.head_too_large")
        assert sent(at, b"GET /" + b"y" * 60_000).status == 431
        fits = b"x: " + b"y" * 30_000 + b"\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(90))
        assert sent(at, head + fits + b"\r\n").status == 200

    run_both(tmp_path, check)


def test_empty_lines_before_a_request_are_few(tmp_path: Path) -> None:
    """The server's door passes over the empty line that some clients send after a body, and refuses what is none."""

    async def main() -> None:
        async with served(tmp_path, []) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            good = at.head("GET", LIST)
            for before, status in ((b"\r\n", 200), (b"\n", 400), (b"\r", 400), (b"\r\n" * 50, 400)):
                (reply,) = await anyio.to_thread.run_sync(at.raw, before + good, "GET")
                assert reply.status == status, before

    anyio.run(main)


def is_refused_whole(at: Served) -> None:
    """What two readers could read differently is refused in a whole result, and nothing behind it is carried out."""
    behind = at.head("GET", LIST)
    for kind, given in BROKEN.items():
        reply = told(at, at.head("POST", ECHO, "x-request-id: r-1", *given) + CHUNKED + b"\r\n" + behind)
        fails(reply, 400, "request.invalid_http")
        assert kind.startswith(("a space", "no length", "two", "a length", "codings", "another", "ch")), kind
    for chunk in CHUNKS:
        reply = told(at, at.head("POST", ECHO, "transfer-encoding: chunked") + chunk + behind)
        fails(reply, 400, "request.invalid_http")
    old = at.head("POST", ECHO, "transfer-encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0")
    fails(told(at, old + CHUNKED + b"\r\n" + behind), 400, "request.invalid_http")
    for version in (b"HTTP/2.0", b"HTTP/1.2", b"HTTP/9.9", b""):
        refuses(told(at, behind.replace(b"HTTP/1.1", version)), 400, "request.invalid_http")
    host = at.head("GET", LIST).split(b"\r\n")[1] + b"\r\n"
    for wrong in (behind.replace(host, b""), behind.replace(host, host + host)):
        refuses(told(at, wrong), 400, "request.invalid_http")


def keeps_to_the_body(at: Served) -> None:
    """The body of a request that asks for another protocol is its body, and trailers are no headers."""
    for framing, body in ((SIZE, CALL), ("transfer-encoding: chunked", CHUNKED + b"\r\n")):
        head = at.head("POST", ECHO, "connection: upgrade", "upgrade: h2c", framing)
        first, second = at.raw(head + body + at.head("GET", LIST), "POST", "GET")
        assert result_of(first, 200)["result"] == {"text": "x"}
        assert isinstance(second.json, list)
    head = at.head("POST", ECHO, "transfer-encoding: chunked")
    trailers = b"x-request-id: r-9\r\ncontent-encoding: gzip\r\n\r\n"
    (reply,) = at.raw(head + CHUNKED + trailers, "POST")
    assert result_of(reply, 200)["result"] == {"text": "x"}
    assert reply.headers["x-request-id"] != "r-9"


def tells_who_sends_much(at: Served) -> None:
    """A client that sends a body far too large reads that it is, however it is sent."""
    with closing(at.connection()) as line:
        reply = at.on(line, "POST", ECHO, b" " * 20_000_000)
    fails(reply, 413, "request.too_large")


def test_what_others_could_read_otherwise_is_refused(tmp_path: Path) -> None:
    """Framing that is no framing is 400 in a whole result at both doors; bodies are what their heads say."""

    def check(at: Served) -> None:
        for one in (is_refused_whole, keeps_to_the_body, tells_who_sends_much):
            one(at)

    run_both(tmp_path, check)


def test_a_head_is_bounded_wherever_its_packets_end(tmp_path: Path) -> None:
    """A head over the bound is 431 at both doors, also when it comes at once; behind others it is answered after them."""

    def check(at: Served) -> None:
        good = at.head("GET", LIST)
        for given in ([f"x: {'y' * 40_000}"], [f"x{number}: y" for number in range(200)]):
            refuses(told(at, at.head("GET", LIST, *given)), 431, "request.head_too_large")
        fits = at.head("GET", LIST, f"x: {'y' * 30_000}")
        large = at.head("GET", f"/{'y' * 40_000}")
        first, second, third = at.raw(good + fits + large, "GET", "GET", "GET")
        assert (first.status, second.status) == (200, 200)
        assert third.status == 431
        chunked = at.head("POST", ECHO, "transfer-encoding: chunked")
        with closing(at.line()) as line:
            line.sendall(chunked + CHUNKED)
            for _ in range(60):
                line.sendall(b"x: " + b"y" * 20_000 + b"\r\n")
            fails(read(line, "POST"), 431, "request.head_too_large")

    run_both(tmp_path, check)


def test_targets_have_many_forms(tmp_path: Path) -> None:
    """A target in absolute form counts with its name; a tunnel, another scheme, another server are refused."""

    def check(at: Served) -> None:
        own = at.url.encode()
        get = at.head("GET", LIST)

        def asked(target: bytes) -> int:
            return at.raw(get.replace(b"/v1/tools ", target + b" "), "GET")[0].status

        assert asked(own + b"/v1/tools") == asked(own.replace(b"http", b"HTTP") + b"/v1/tools?x=1") == 200
        assert asked(b"http://evil.example/v1/tools") == 421
        assert asked(b"http://a@" + own[7:] + b"/v1/tools") == 421
        assert asked(b"ftp://" + own[7:] + b"/v1/tools") == 400
        assert asked(own + b"/none") == asked(b"*") == asked(b"//v1/tools") == 404
        (reply,) = at.raw(get.replace(b"GET /v1/tools", b"CONNECT " + own[7:]), "CONNECT")
        assert reply.status == 400
        without = get.replace(b"host: " + own[7:] + b"\r\n", b"").replace(b"/v1", own + b"/v1")
        assert at.raw(without, "GET")[0].status == 400

    run_both(tmp_path, check)


def test_who_waits_for_its_turn_is_told_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`100 Continue` comes when it is a request's turn, and never to HTTP/1.0; a call is not ended by a slow body behind it."""
    monkeypatch.setattr(application, "BODY_S", 0.05)
    monkeypatch.setattr(application, "LINGER_S", 0.1)
    free = threading.Event()

    @tool(access="read")
    def held() -> str:
        """Wait until the test says so."""
        assert free.wait(60)
        return "held"

    def body(one: Opened) -> None:
        first = one.at.head("POST", "/v1/tools/held:invoke", "content-length: 12") + b'{"args": {}}'
        with closing(one.at.line()) as line:
            line.sendall(first + one.at.head("POST", ECHO, SIZE, "expect: 100-continue"))
            for _ in range(2):  # the time of the second body is over
                fails(told(one.at, one.at.head("POST", ECHO, SIZE)), 408, "request.timeout")
            free.set()
            assert result_of(read(line, "POST"), 200)["result"] == "held"
            assert line.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
            line.sendall(CALL)
            assert result_of(read(line, "POST"), 200)["result"] == {"text": "x"}
        old = one.at.head("POST", ECHO, SIZE, "expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        with closing(one.at.line()) as line:
            line.sendall(old)
            line.sendall(CALL)
            assert line.recv(13) == b"HTTP/1.1 200 "

    run(tmp_path, body, tools=(held,))


def test_the_one_idle_longest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are as many connections as there may be, a new one takes the place of the one idle longest."""
    monkeypatch.setattr(listen, "MAX_CONNECTIONS", 16)

    def body(one: Opened) -> None:
        get = one.at.head("GET", LIST)

        def asks(line: socket.socket) -> bool:
            line.sendall(get)
            return read(line).status == 200

        with ExitStack() as stack:
            known = [stack.enter_context(closing(one.at.line())) for _ in range(16)]
            assert all(asks(line) for line in [*known, known[0]])
            new = [stack.enter_context(closing(one.at.line())) for _ in range(8)]
            assert all(asks(line) for line in new)
            assert asks(known[0])
            assert all(ended(line) for line in known[1:9])
            assert all(asks(line) for line in known[9:])

    run(tmp_path, body)


def test_who_reads_slowly_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes its answer bit by bit has it whole; one that takes nothing is left, and the system keeps nothing for it."""
    monkeypatch.setattr(http_connection, "SLOW_READ_S", 0.4)
    monkeypatch.setattr(http_connection, "SLOW_READ_BYTES", 1)
    size = 1_000_000

    @tool(access="read")
    def much() -> str:
        """Give much."""
        return "x" * size

    def body(one: Opened) -> None:
        post = one.at.head("POST", "/v1/tools/much:invoke", "content-length: 12") + b'{"args": {}}'
        with closing(socket.socket()) as slow, closing(socket.socket()) as dead:
            for line in (slow, dead):
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
                line.settimeout(60)
                line.connect(("127.0.0.1", int(one.at.url.rpartition(":")[2])))
                line.sendall(post * MANY)
            assert taken(slow, size * MANY) >= size * MANY
            while one.at.send("GET", LIST).status == 200 and not gone(dead):
                pass

    run(tmp_path, body, tools=(much,))


def taken(line: socket.socket, size: int) -> int:
    """How much comes, until there is so much or the end."""
    got = 0
    with suppress(ConnectionError):
        while got < size and (piece := line.recv(65_536)):
            got += len(piece)
    return got


def gone(line: socket.socket) -> bool:
    """Whether the other side has hung up; nothing is read."""
    waits = select.poll()
    waits.register(line, select.POLLERR | select.POLLHUP)
    return bool(waits.poll(0))


def test_a_client_of_the_servers_door_that_goes_ends_its_call(tmp_path: Path) -> None:
    """Behind the door of `jaato serve`, too, a call whose client has gone is cancelled."""
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin", "TOOL_REGISTRY_DOMAINS": waiting.__file__}

    def goes(at: Served) -> None:
        call = json.dumps({"args": {"place": str(tmp_path), "seconds": 600}}).encode()
        with closing(at.line()) as line:
            line.sendall(at.head("POST", "/v1/tools/wait:invoke", f"content-length: {len(call)}") + call)
            while not (tmp_path / "begun").exists():
                assert at.send("GET", LIST).status == 200
        while not (tmp_path / "ended").exists():
            assert at.send("GET", LIST).status == 200
        assert (tmp_path / "ended").read_text() in ("", "cancelled")

    async def main() -> None:
        async with served(tmp_path / "server", [], environ=environ) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync(goes, at, abandon_on_cancel=True)

    anyio.run(main)
