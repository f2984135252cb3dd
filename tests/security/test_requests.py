"""Bytes that are no request, or two, and openings that are none."""

from __future__ import annotations

import base64
import socket
from contextlib import closing, suppress

import pytest
from tests.security.auth_server import KEY, Keep, answer, awaited, descriptors, status

HTTP: dict[str, tuple[bytes, set[int]]] = {
    "nothing": (b"\r\n\r\n", {400, 0}),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", {400, 421}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50, {400}),
    "another version": (b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", {400, 421}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 421}),
    "HTTP/0.9": (b"GET /health\r\n\r\n", {400}),
    "one long line": (b"X" * 100_000, {400, 431, 0}),
    "many headers": (b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, {431, 0}),
    "a folded header": (b"GET /health HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n", {400}),
    "a space before the colon": (b"GET /health HTTP/1.1\r\nHost : {host}\r\n\r\n", {400}),
    "a NUL": (b"GET /he\0alth HTTP/1.1\r\nHost: {host}\r\n\r\n", {400}),
    "length and chunks": (
        b"POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        {400, 401},
    ),
    "two lengths": (
        b"POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: 99\r\n\r\n{next}",
        {400},
    ),
    "a length with a sign": (
        b"POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: +5\r\n\r\n{next}",
        {400},
    ),
    "chunks by another name": (
        b"POST /mcp HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{next}",
        {400, 501},
    ),
    "a bare line feed": (b"GET /health HTTP/1.1\nHost: {host}\nX: y\r\r\n\r\n", {400}),
}


@pytest.mark.parametrize("kind", HTTP)
def test_what_is_no_request_is_refused(keep: Keep, kind: str) -> None:
    """Garbage and requests that two readers could read differently get an error; what hides behind one is not carried out
    with somebody else's rights."""
    data, expected = HTTP[kind]
    hidden = keep.head("/health")
    data = data.replace(b"{host}", f"127.0.0.1:{keep.port}".encode()).replace(b"{next}", hidden)
    with closing(keep.dial(30)) as line:
        with suppress(OSError):  # the server may have refused, and gone, in the middle
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while piece := line.recv(65_536):
                said += piece
        except OSError:
            pass
    assert status(said) in expected, said
    assert b"HTTP/1.1 200" not in said
    assert b"uptime" not in said
    assert keep.serves()


LOOSE: dict[str, tuple[bytes, bytes, set[int]]] = {
    "a folded header": (b"\r\n\r\n", b"\r\nX: a\r\n b\r\n\r\n", {400}),
    "bare line feeds": (b"\r\n", b"\n", {400}),
    "a bare line feed in front of a header": (b"\r\n\r\n", b"\nX: a\r\n\r\n", {400}),
    "3,000 headers": (b"\r\n\r\n", b"\r\nX: a" * 3_000 + b"\r\n\r\n", {431}),
    "101 headers": (b"\r\n\r\n", b"\r\nX: a" * 99 + b"\r\n\r\n", {431}),
    "33 kB": (b"\r\n\r\n", b"\r\nX: " + b"a" * 33_000 + b"\r\n\r\n", {431}),
}


@pytest.mark.parametrize("kind", LOOSE)
def test_a_loosely_written_request_gets_no_list_of_tools(keep: Keep, kind: str) -> None:
    """An owner's request that others may read differently, or whose head has no end, is refused; without that it is answered."""
    head = keep.head("/v1/tools", token=keep.tokens["owner"])
    old, new, expected = LOOSE[kind]
    said = keep.ask(head.replace(old, new))
    assert status(said) in expected, said
    assert status(keep.ask(head)) == 200
    assert keep.serves()


UPGRADES: dict[str, list[str]] = {
    "many headers": [f"X-{number}: y" for number in range(200)],
    "a long header": ["X: " + "y" * 9_000],
    "a body": ["Content-Length: 5"],
    "chunks": ["Transfer-Encoding: chunked"],
    "another key": ["Sec-WebSocket-Key: short"],
    "another version": ["Sec-WebSocket-Version: 7"],
    "extensions": ["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"],
}


@pytest.mark.parametrize("kind", UPGRADES)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_an_opening_that_is_none_is_ended(keep: Keep, kind: str, method: str) -> None:
    """A WebSocket asked for in a way that is none gets an error at once and no descriptor stays; compression is never agreed."""
    before = descriptors(keep)
    head = keep.upgrade(*UPGRADES[kind], token=keep.tokens["owner"]).replace(b"GET", method.encode(), 1)
    said = keep.ask(head)
    if kind == "extensions" and method == "GET":
        assert status(said) == 101
        assert b"extensions" not in said.lower()
    else:
        assert status(said) in (400, 405, 426, 431), said
    awaited(lambda: descriptors(keep) <= before)


def test_the_key_of_the_opening_is_answered(keep: Keep) -> None:
    """The opening is that of RFC 6455; its key is sixteen bytes."""
    assert len(base64.b64decode(KEY)) == 16
    with closing(keep.dial()) as line:
        line.sendall(keep.upgrade(token=keep.tokens["owner"]))
        assert b"sec-websocket-accept" in answer(line).lower()
