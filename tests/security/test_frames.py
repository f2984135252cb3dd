"""Hostile bytes: what is no request, no frame, no greeting, too much, too slow or never ends. Others are served meanwhile."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest
from tests.security.keep import KEY, Keep, Line, answer, awaited, status

from jaato.client.websocket import BINARY, CLOSE, CONTINUATION, PING, TEXT, Closed, frame

HELLO = b'{"type":"hello","protocol":1}'
MOST_KB = 200_000


def raw_frame(first: int, size: int, payload: bytes = b"", *, mask: bool = True) -> bytes:
    """A frame whose head says what is given, whether it is so or not."""
    head = bytes((first, (0x80 if mask else 0) | 127)) + size.to_bytes(8, "big")
    return head + (bytes(4) if mask else b"") + payload


FRAMES: dict[str, tuple[bytes, set[int]]] = {
    "unmasked": (b"\x81" + bytes([len(HELLO)]) + HELLO, {1002}),
    "binary": (frame(BINARY, HELLO), {1003}),
    "announced 100 MB": (raw_frame(0x81, 100_000_000), {1009}),
    "announced 2^63": (raw_frame(0x81, 1 << 63), {1009, 1002}),
    "4,097 bytes": (frame(TEXT, HELLO + b" " * (4_097 - len(HELLO))), {1009, 4400}),
    "4,097 bytes in parts": (
        frame(TEXT, HELLO + b" " * 3_000).replace(b"\x81", b"\x01", 1) + frame(CONTINUATION, b" " * 1_097),
        {1009, 4400},
    ),
    "reserved bit": (b"\xc1" + frame(TEXT, HELLO)[1:], {1002}),
    "compressed": (b"\xc1" + frame(TEXT, b"\xaa\x56\x2a\xa9")[1:], {1002}),
    "unknown opcode": (b"\x83" + frame(TEXT, HELLO)[1:], {1002}),
    "continued from nothing": (frame(CONTINUATION, HELLO), {1002}),
    "long ping": (frame(PING, b"x" * 126), {1002}),
    "ping in parts": (b"\x09" + frame(PING, b"x")[1:], {1002}),
    "bad UTF-8": (frame(TEXT, b"\xff\xfe"), {1007, 4400}),
    "close of one byte": (frame(CLOSE, b"\x03"), {1002, 1006}),
    "not JSON": (frame(TEXT, b"hello"), {4400}),
    "empty": (frame(TEXT, b""), {4400}),
    "nested lists": (frame(TEXT, b"[" * 4_000), {4400}),
    "nested objects": (
        frame(TEXT, b'{"type":"hello","protocol":1,"x":' + b'{"a":' * 550 + b"1" + b"}" * 551),
        {4400, 0},  # a field that is not known
    ),
    "a number of 4,000 digits": (
        frame(TEXT, b'{"type":"hello","protocol":' + b"9" * 4_000 + b"}"),
        {4400, 4426},
    ),
    "a lone surrogate": (frame(TEXT, b'{"type":"hello","protocol":1,"name":"\\ud800"}'), {4400, 0}),
    "another protocol": (frame(TEXT, b'{"type":"hello","protocol":2}'), {4426}),
    "a protocol of words": (frame(TEXT, b'{"type":"hello","protocol":"1"}'), {4400}),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", {1002}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_hostile_greeting_ends_its_own_connection(keep: Keep, kind: str) -> None:
    """What is no hello is answered with a close code and never more, with a token in the header or without."""
    data, codes = FRAMES[kind]
    with keep.socket(keep.tokens["owner"]) as line:
        line.raw.sendall(data)
        said = line.receive()
        if 0 in codes and isinstance(said, dict):
            assert said["type"] == "welcome"
        else:
            assert isinstance(said, Closed), said
            assert said.code in codes, said
    with keep.socket(who=7) as line:
        line.raw.sendall(data)
        said = line.receive()
        assert isinstance(said, Closed)
        assert said.code in codes | {4401}
    assert keep.serves()


@pytest.mark.parametrize(
    "kind", ["unmasked", "binary", "announced 100 MB", "reserved bit", "bad UTF-8", "long ping", "HTTP"]
)
def test_a_hostile_frame_ends_its_own_connection(keep: Keep, kind: str) -> None:
    """After the greeting it is the same; a long frame announced is refused before it comes."""
    with keep.client(keep.tokens["owner"]) as line, keep.client(keep.tokens["owner"]) as other:
        line.raw.sendall(FRAMES[kind][0])
        assert line.closed().code in FRAMES[kind][1]
        assert "result" in other.command("session.list")


@pytest.mark.parametrize(
    "message",
    [
        b"not json",
        b"{",
        b"[]",
        b"null",
        b'{"type":"no.such","id":"7"}',
        b'{"type":"session.list","id":"7","limit":"many"}',
        b'{"type":["session.list"],"id":"7"}',
        b'{"id":"7"}',
        b'{"type":"hello","protocol":1,"id":"7"}',
        b'{"type":"message.model","id":"7"}',
        b"[" * 100_000,
        b'{"type":"session.list","id":"7","workspace":' + b'{"a":' * 100_000,
        b'{"type":"session.list","id":' + b"9" * 10_000 + b"}",
        b'{"type":"session.list","id":"' + b"x" * 100_000 + b'","limit":""}',
    ],
    ids=lambda message: message[:30].decode(),
)
def test_what_is_no_command_is_said_to_be_none(keep: Keep, message: bytes) -> None:
    """It is answered with `command_invalid`, with its id if it has one that is short; the connection goes on."""
    with keep.client(keep.tokens["owner"]) as line:
        line.send(message)
        said = line.receive()
        assert said["error"]["code"] == "command_invalid"
        assert len(json.dumps(said)) < 2_000
        assert "result" in line.command("session.list")


def test_fields_of_the_future_are_passed_over(keep: Keep) -> None:
    """A newer client may say more than this server knows."""
    with keep.socket(keep.tokens["owner"]) as line:
        line.hello(features=["x"], colour={"deep": [1]})
        assert "result" in line.command("session.list", colour="blue")


def test_who_makes_no_sense_at_all_is_sent_away(keep: Keep) -> None:
    """After twenty frames that are no command the connection ends."""
    with keep.client(keep.tokens["owner"]) as line:
        for _ in range(25):
            line.send(b"nonsense")
        assert line.closed().code == 4400


def test_a_message_may_come_in_parts(keep: Keep) -> None:
    """Fragments, down to one byte and with pings between them, are one message."""
    with keep.socket(keep.tokens["owner"]) as line:
        parts = [HELLO[at : at + 1] for at in range(len(HELLO))]
        for number, part in enumerate(parts):
            opcode = TEXT if number == 0 else CONTINUATION
            made = bytearray(frame(opcode, part))
            if number < len(parts) - 1:
                made[0] &= 0x7F
            line.raw.sendall(bytes(made) + frame(PING, b"?"))
        assert line.receive()["type"] == "welcome"


def test_silence_is_ended(keep: Keep) -> None:
    """Who has not greeted within five seconds, silently or a byte at a time, is sent away; others are served meanwhile."""
    slow = frame(TEXT, HELLO)
    with keep.socket(who=20) as silent, keep.socket(keep.tokens["owner"], who=21) as crawling:
        began = time.monotonic()
        crawling.raw.settimeout(0.5)
        ended = False
        for at in range(min(len(slow), 40)):
            try:
                crawling.raw.sendall(slow[at : at + 1])
                crawling.raw.recv(1, socket.MSG_PEEK)
                ended = True
                break
            except TimeoutError:
                assert keep.serves()
            except OSError:
                ended = True
                break
        assert ended
        assert crawling.closed().code in (4400, 1006)
        assert silent.closed().code == 4400
        assert time.monotonic() - began > 4


def test_a_flood_of_pings_that_reads_no_answers_costs_no_memory(keep: Keep) -> None:
    """Tens of megabytes of pings from one who is not let in, and does not read: the server keeps none of the answers."""
    with keep.socket(keep.tokens["owner"]) as line:
        line.hello()
        line.raw.settimeout(5)
        flood = frame(PING, b"x" * 125) * 4_000
        try:
            for _ in range(60):
                line.raw.sendall(flood)
        except (TimeoutError, OSError):
            pass
        assert keep.serves()
        assert keep.peak_kb < MOST_KB


def test_a_client_that_asks_and_does_not_read_is_heard_no_further(keep: Keep) -> None:
    """Its requests wait in its own pipe: neither replies nor requests pile up in the server."""
    with keep.client(keep.tokens["owner"]) as maker:
        made = maker.command("session.create", **keep.scripted())
        session_id = made["result"]["session_id"]
        long = "word " * 100_000
        assert "result" in maker.command("message.send", session_id=session_id, text=long)
    ask = frame(TEXT, json.dumps({"type": "history.request", "id": "1", "session_id": session_id}).encode())
    with keep.client(keep.tokens["owner"]) as line:
        line.raw.settimeout(3)
        try:
            for _ in range(200):
                line.raw.sendall(ask * 50)
        except (TimeoutError, OSError):
            pass
        assert keep.serves()
        assert keep.peak_kb < MOST_KB


HTTP: dict[str, tuple[bytes, set[int]]] = {
    "nothing": (b"\r\n\r\n", {400, 0}),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", {400, 421}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50, {400}),
    "another version": (b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", {400, 421}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 421}),
    "HTTP/0.9": (b"GET /health\r\n\r\n", {400}),
    "one long line": (b"X" * 100_000, {400, 0}),
    "many headers": (b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, {400, 0}),
    "a folded header": (b"GET /health HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n", {400, 401}),
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
    "a bare line feed": (b"GET /health HTTP/1.1\nHost: {host}\nX: y\r\r\n\r\n", {400, 401}),
}


@pytest.mark.parametrize("kind", HTTP)
def test_what_is_no_request_is_refused(keep: Keep, kind: str) -> None:
    """Garbage and requests that two readers could read differently get an error; what hides behind one is not carried out
    with somebody else's rights."""
    data, expected = HTTP[kind]
    hidden = keep.head("/health")
    data = data.replace(b"{host}", f"127.0.0.1:{keep.port}".encode()).replace(b"{next}", hidden)
    with closing(keep.dial(30)) as line:
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
        assert status(said) in (400, 405, 426), said
    awaited(lambda: descriptors(keep) <= before)


def descriptors(keep: Keep) -> int:
    """How many descriptors the server has open."""
    return len(os.listdir(f"/proc/{keep.process.pid}/fd"))


def test_slow_headers_keep_nobody_out(keep: Keep) -> None:
    """Hundreds who have begun a request, a WebSocket or nothing and say no more make room for one who says all."""
    before = descriptors(keep)
    kinds = (b"", b"GET /hea", keep.upgrade()[:-2], keep.upgrade())
    with ExitStack() as stack:
        for number in range(700):
            try:
                line = stack.enter_context(closing(keep.dial(100 + number)))
                line.sendall(kinds[number % 4])
            except OSError:
                continue
        for _ in range(5):
            assert status(keep.ask(keep.head(token=keep.tokens["owner"]), who=40)) == 200
            assert keep.serves()
        assert descriptors(keep) < 600, "they are bounded in number"
        with keep.client(unix=True) as line_:
            assert "result" in line_.command("session.list"), "and the Unix socket has a count of its own"
    awaited(lambda: descriptors(keep) <= before + 2)
    assert keep.peak_kb < MOST_KB


def test_those_who_are_let_in_are_not_pushed_out(keep: Keep) -> None:
    """A crowd of strangers makes room for each other, and takes the place of none who is served."""
    with keep.client(keep.tokens["viewer"]) as line, ExitStack() as stack:
        for number in range(600):
            try:
                other = stack.enter_context(closing(keep.dial(100 + number)))
                other.sendall(keep.upgrade())
            except OSError:
                continue
        assert "result" in line.command("session.list")


def test_many_come_and_go(keep: Keep) -> None:
    """After hundreds of connections of every kind, broken off anywhere, no descriptor is left."""
    before = descriptors(keep)
    whole = keep.upgrade(token=keep.tokens["owner"]) + frame(TEXT, HELLO)
    for number in range(300):
        with closing(keep.dial(number % 200 + 1)) as line:
            line.sendall(whole[: (number * 37) % len(whole)])
    for _ in range(50):
        with keep.client(keep.tokens["owner"]) as client:
            assert isinstance(client, Line)
            client.send({"type": "session.list", "id": "1"})
    awaited(lambda: descriptors(keep) <= before)
    assert keep.serves()


def test_the_key_of_the_opening_is_answered(keep: Keep) -> None:
    """The opening is that of RFC 6455; its key is sixteen bytes."""
    assert len(base64.b64decode(KEY)) == 16
    with closing(keep.dial()) as line:
        line.sendall(keep.upgrade(token=keep.tokens["owner"]))
        assert b"sec-websocket-accept" in answer(line).lower()


def test_events_reach_a_viewer_while_others_misbehave(keep: Keep) -> None:
    """A session goes on, and is watched, while hostile frames come in beside it."""
    with keep.client(keep.tokens["owner"]) as owner, keep.client(keep.tokens["viewer"]) as viewer:
        made: dict[str, Any] = owner.command("session.create", **keep.scripted())
        session_id = made["result"]["session_id"]
        assert "result" in viewer.command("session.attach", session_id=session_id)
        with keep.socket(who=50) as bad:
            bad.raw.sendall(raw_frame(0x81, 100_000_000))
            assert "result" in owner.command("message.send", session_id=session_id, text="Is all well?")
            while (event := viewer.receive())["type"] != "turn.completed":
                assert isinstance(event, dict)
            assert bad.closed().code == 1009
