"""The server over HTTP against whoever comes without being asked: raw sockets, hostile requests."""

from __future__ import annotations

import json
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.mcp_server.raw import HELLO
from tests.mcp_server.serving import House, Served
from tests.mcp_server.test_stdio import SLEEPER, awaited, gone

ACCEPT = "application/json, text/event-stream"
DISCOVER = json.dumps(HELLO).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of this file that do not end it."""
    server = Served(House(tmp_path_factory.mktemp("served")), "--allow-origin", "https://editor.example")
    yield server
    code, said = server.stop()
    assert (code, said) == (0, ""), "it ends well, and nothing anybody sent has made it complain"


def raw(server: Served, data: bytes, *, wait_s: float = 60.0) -> bytes:
    """What the server says to these bytes, until it closes the connection or has said a whole answer."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=wait_s)) as line:
        try:
            line.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        said = b""
        try:
            while piece := line.recv(65_536):
                said += piece
                head, found, body = said.partition(b"\r\n\r\n")
                length = [row for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:")]
                if found and length and len(body) >= int(length[0].split(b":")[1]):
                    break
                if found and b"event-stream" in head.lower() and b"\r\n\r\n" in body:
                    break
        except (ConnectionResetError, TimeoutError):
            pass
        return said


def request(
    server: Served, *more: str, body: bytes = DISCOVER, method: str = "POST", **changed: str | None
) -> bytes:
    """An HTTP request that would be served, but for what is changed or left out (None)."""
    headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{server.port}",
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
        "Accept": ACCEPT,
        "Content-Length": str(len(body)),
    }
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"{method} /mcp HTTP/1.1", *lines, *more, "", ""]).encode("latin-1") + body


def status(said: bytes) -> int:
    """The status of an answer."""
    return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0


def test_the_token_is_private_and_nowhere_else(served: Served) -> None:
    """It is in a file of mode 0600, not in the address, and the same after another start."""
    assert stat.S_IMODE(served.token_file.stat().st_mode) == 0o600
    assert len(served.token) >= 40
    assert served.token not in served.said
    assert status(raw(served, request(served))) == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"Authorization": None},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer {token}x"},
        {"Authorization": "Bearer {part}"},
        {"Authorization": "Basic {token}"},
        {"Authorization": "{token}"},
        {"Authorization": "Bearer {token}\r\nAuthorization: Bearer {token}"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Authorization": "Bearer " + "x" * 20_000},
    ],
    ids=["none", "empty", "wrong", "longer", "prefix", "basic", "bare", "twice", "bytes", "long"],
)
def test_without_the_token_nobody_comes_in(served: Served, changed: dict[str, str | None]) -> None:
    """No token, a wrong one, one that begins as ours does, or two: 401, and not a word of what is here."""
    given = {
        name: None
        if value is None
        else value.replace("{token}", served.token).replace("{part}", served.token[:-1])
        for name, value in changed.items()
    }
    said = raw(served, request(served, Authorization=given["Authorization"]))
    assert status(said) == 401
    assert b"www-authenticate: Bearer" in said
    assert b"serverInfo" not in said
    query = request(served, Authorization=None).replace(b"/mcp", b"/mcp?token=" + served.token.encode(), 1)
    assert status(raw(served, query)) == 401, "a token in the address counts for nothing"


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "localhost:{port}@evil.example",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
        "[::1]",
        "2130706433:{port}",
    ],
)
def test_a_name_that_is_not_ours_is_refused(served: Served, host: str | None) -> None:
    """A page that has pointed its own name at this address (DNS rebinding) gets nothing, even with the token."""
    given = None if host is None else host.replace("{port}", str(served.port))
    assert status(raw(served, request(served, Host=given))) in (400, 421)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("null", 403),
        ("https://evil.example", 403),
        ("http://localhost.evil.example:{port}", 403),
        ("http://127.0.0.1:{port}.evil.example", 403),
        ("http://127.0.0.1", 403),
        ("file://", 403),
        ("https://editor.example.evil", 403),
        ("https://editor.example:444", 403),
        ("", 403),
        ("https://editor.example\r\nOrigin: https://evil.example", 403),
        ("https://editor.example", 200),
        ("HTTP://LOCALHOST:{port}", 200),
    ],
)
def test_pages_of_others_may_not_call(served: Served, origin: str, expected: int) -> None:
    """An Origin counts whole: null, strangers and those that look like ours are refused; nobody is told of CORS."""
    said = raw(served, request(served, Origin=origin.replace("{port}", str(served.port))))
    assert status(said) == expected
    assert b"access-control" not in said.lower()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", (400, 421)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50, (400,)),
        (b"POST /mcp HTTP/9.9\r\nHost: x\r\n\r\n", (400, 421)),
        (b"X" * 100_000, (400, 0)),
        (b"POST /mcp HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, (431, 0)),
    ],
    ids=["no host", "tls", "version", "long", "headers"],
)
def test_what_is_no_request_is_refused(served: Served, data: bytes, expected: tuple[int, ...]) -> None:
    """Bytes that are no HTTP, or far too much of it, end their own connection alone."""
    assert status(raw(served, data)) in expected
    assert status(raw(served, request(served))) == 200


def test_large_bodies_are_refused_before_they_are_read(served: Served) -> None:
    """100 MB, declared or in chunks, with the token or without, is refused and never held."""
    assert status(raw(served, request(served, Content_Length="100000000", body=b"{"))) == 413
    assert status(raw(served, request(served, Content_Length="9" * 30, body=b"{"))) in (400, 413)
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    head = request(served, Transfer_Encoding="chunked", Content_Length=None, body=b"")
    assert status(raw(served, head + chunk * 1_600)) in (413, 0)
    resident = Path(f"/proc/{served.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    assert int(resident) < 300_000, "kilobytes at most, ever"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400,)),
        (b"not json", (400,)),
        (b"[" * 100_000 + b"]" * 100_000, (400,)),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":'
            + b'{"a":' * 50_000
            + b"1"
            + b"}" * 50_000
            + b"}",
            (400,),
        ),
        (b"\xff\xfe", (400,)),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', (400, 404)),
    ],
    ids=["empty", "words", "deep list", "deep object", "bytes", "no session"],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01", "x" * 5_000])
def test_hostile_bodies_are_refused(
    served: Served, body: bytes, expected: tuple[int, ...], version: str
) -> None:
    """What is no message is a 4xx in both eras, and the server serves on."""
    said = raw(served, request(served, MCP_Protocol_Version=version, body=body))
    assert status(said) in expected, said[:300]
    assert status(raw(served, request(served))) == 200


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "PUT", "DELETE", "TRACE", "PATCH"])
def test_other_methods_and_paths_are_nothing(served: Served, method: str) -> None:
    """Only what the protocol has is served, and only with the token."""
    assert status(raw(served, request(served, method=method, body=b"", Authorization=None))) == 401
    assert status(raw(served, request(served, method=method, body=b""))) in (400, 404, 405)
    elsewhere = request(served).replace(b"/mcp", b"/mcp/../secret", 1)
    assert status(raw(served, elsewhere)) == 404


def test_half_a_request_holds_up_nobody(served: Served) -> None:
    """Hundreds of connections that say nothing, or half of a request, do not keep others from being served."""
    lines: list[socket.socket] = []
    try:
        for number in range(1_000):
            try:
                line = socket.create_connection(("127.0.0.1", served.port), timeout=5)
            except OSError:
                continue
            lines.append(line)
            try:
                line.sendall(request(served)[: number % 400])
            except OSError:
                continue
        assert status(raw(served, request(served))) == 200
    finally:
        for line in lines:
            line.close()


def test_a_client_that_ends_its_session_takes_its_calls_along(house: House) -> None:
    """DELETE stops what the session has under way; its id is worth nothing afterwards, as one made up never was."""
    server = Served(house, "--yes")
    try:
        found = re.search(rb"mcp-session-id: (\w+)", raw(server, request(server)))
        assert found
        session = found[1].decode()
        params = {"name": "run", "arguments": {"command": SLEEPER}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(message).encode()
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as line:
            line.sendall(request(server, body=body, Mcp_Session_Id=session))
            pid = int(awaited(house.work / "pid.txt"))
            ended = raw(server, request(server, method="DELETE", body=b"", Mcp_Session_Id=session))
            assert status(ended) == 200
            assert gone(pid)
        for known in (session, "0" * 32, "../../etc"):
            assert status(raw(server, request(server, body=body, Mcp_Session_Id=known))) == 404
    finally:
        assert server.stop() == (0, "")
