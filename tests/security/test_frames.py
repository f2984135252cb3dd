"""Hostile bytes: what is no request, no frame, no greeting, too much, too slow or never ends. Others are served meanwhile."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.security.auth_server import Keep, Line, awaited, descriptors, status

from jaato.client.websocket import BINARY, CLOSE, CONTINUATION, PING, TEXT, Closed, frame
from jaato.protocol.codec import encode
from jaato.server.sessions.client_connection import invalid_frame_reply

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
    ("message", "id_"),
    [
        (b"not json", ""),
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b"null", ""),
        (b'{"type":"no.such","id":"7"}', "7"),
        (b'{"type":"session.list","id":"7","limit":"many"}', "7"),
        (b'{"type":["session.list"],"id":"7"}', "7"),
        (b'{"id":"7"}', "7"),
        (b'{"type":"hello","protocol":1,"id":"7"}', "7"),
        (b'{"type":"message.model","id":"7"}', "7"),
        (b'{"type":"session.list","id":7}', "7"),
        (b'{"type":"session.list","id":7.5}', ""),
        (b'{"type":"session.list","id":null}', ""),
        (b'{"type":"session.list","id":["7"]}', ""),
        (b"[" * 100_000, ""),
        (b'{"type":"session.list","id":"7","workspace":' + b'{"a":' * 100_000, "7"),
        (b'{"type":"session.list","id":' + b"9" * 10_000 + b"}", ""),
        (b'{"type":"session.list","id":"' + b"x" * 100_000 + b'","limit":""}', ""),
        (
            b'{"type":"session.list","limit":5,"query":"a \\" \\u00e4","id" : "7\\n\\"","workspace":"cut o',
            '7\n"',
        ),
        (b'{"type":"session.list","deep":{"id":"8"},"id":"7",}', ""),
        (b'{"type":"session.list","id":"8","id":"7"}, {', "8"),
        (b'{"type":"session.list","query":"\\"id\\":\\"8\\"","id":7,}', "7"),
        (b'{"type":"session.list","id":"cut o', ""),
        (b'{"type":"session.list","id":12', ""),
        (b'{"' + b"\\" * 200_000, ""),
    ],
    ids=lambda value: value[:30].decode() if isinstance(value, bytes) else None,
)
def test_an_invalid_frame_is_answered_under_its_id(keep: Keep, message: bytes, id_: str) -> None:
    """It is answered with `command_invalid` and its id, if it has one that can be read and is short; else the message says
    which frame it is about. The connection stays open."""
    with keep.client(keep.tokens["owner"]) as line:
        assert "result" in line.command("session.list")
        line.send(message)
        said = line.receive()
        assert (said["id"], said["error"]["code"]) == (id_, "command_invalid")
        details = said["error"]["details"]
        assert details["frame"] == 2
        assert message.decode().startswith(details["begins"])
        if not id_:
            assert (
                f"(frame 2 after hello, {len(message):,} characters, which begins" in said["error"]["message"]
            )
        assert len(json.dumps(said)) < 2_000
        assert "result" in line.command("session.list")


def test_a_frame_in_memory_that_is_no_unicode_is_answered() -> None:
    """A client in the same process can send what no wire carries; the reply can be encoded."""
    reply = invalid_frame_reply('{"id":"\udc80"', 3, "no Unicode")
    assert b'"frame":3' in encode(reply)


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


def test_a_client_that_disconnects_while_it_is_refused_is_not_logged(tmp_path: Path) -> None:
    """The connection of a client that has gone ends silently, also where the server was about to close it."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    try:
        with keep.client(keep.tokens["owner"]) as line:
            line.raw.sendall(frame(TEXT, b"nonsense") * 25 + frame(CLOSE, (1000).to_bytes(2, "big")))
            line.closed()
        assert keep.serves()
    finally:
        code, said = keep.stop()
    assert (code, said) == (0, "")
