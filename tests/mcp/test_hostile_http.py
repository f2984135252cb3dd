"""Servers behind a URL that flood, lie, forget and break off: the call fails soon, with the reason, and nothing grows."""

from __future__ import annotations

import json
import logging
import queue
import socket
import time
import zlib
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.mcp.hosting import call, hosted
from tests.mcp.raw_http import Answer, Asked, document, hand, honest, reply, result_of, stream

from jaato.errors import JaatoError
from jaato.plugins.mcp.http_transport import BURST_LINES, LINES_A_SECOND, Bounded, Guard
from jaato.plugins.mcp.pool import SessionServers
from jaato.tools.call import Call

PAST = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'


def failure(path: Path, answers: dict[str, Answer], *, call_s: float = 20.0, kind: str = "http") -> str:
    """What a call of a server that is fine until then fails with."""
    with hand(**answers) as server:

        async def talk(host: SessionServers) -> str:
            with pytest.raises(JaatoError) as caught:
                await call(host, "far", text="x")
            return str(caught.value)

        entry = {"type": kind, "url": server.url, "call_timeout_s": call_s, "start_timeout_s": 20}
        said: str = hosted(path, {"far": entry}, talk)
        return said


def packed(connection: socket.socket, _: Asked) -> bool:
    """A hundred megabytes in a hundred kilobytes."""
    bomb = zlib.compress(b" " * 100_000_000)
    return reply(connection, "200 OK", bomb, kind="application/json", Content_Encoding="deflate")


def endless(head: bytes, piece: bytes) -> Answer:
    """Something that does not end."""

    def answer(connection: socket.socket, _: Asked) -> bool:
        connection.sendall(head)
        while True:
            connection.sendall(piece)

    return answer


def cut(data: bytes) -> Answer:
    """Something that breaks off."""

    def answer(connection: socket.socket, _: Asked) -> bool:
        connection.sendall(data)
        return False

    return answer


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (packed, "the answer is compressed, which was not asked for"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 500), "Its connection failed: Receive buffer too long"),
        (endless(JSON + b'\r\n{"x":"', b"x" * 65_536), "the answer is larger than 32 MB"),
        (endless(STREAM + b"data: ", b"x" * 65_536), "exceeded the 33554432 byte limit"),
        (cut(STREAM + b'data: {"jsonrpc":'), "ended without a response; whether it did what was asked is not known"),
        (cut(JSON + b'Content-Length: 99\r\n\r\n{"jso'), "peer closed connection without sending complete message"),
        (cut(b"\x00\xff\x15\x03"), "Its connection failed: illegal"),
        (cut(b""), "Its connection failed: Server disconnected without sending a response. The next"),
        (lambda c, _: reply(c, "200 OK", b"<p>", kind="text/html"), "neither JSON nor a stream of events (content type: text/html)"),
        (lambda c, _: reply(c, "200 OK", b"{}"), "(content type: none)"),
        (lambda c, _: reply(c, "200 OK", b"", kind="application/json"), "what it answered is no JSON-RPC message"),
        (lambda c, _: reply(c, "200 OK", b'{"a":' * 9_999, kind="application/json"), "is no JSON-RPC message"),
        (lambda c, _: reply(c, "500 Oh \x1b[31mno", b"boom"), "It answered HTTP 500 Oh [31mno."),
        (lambda c, _: reply(c, "429 Too Many Requests"), "It answered HTTP 429 Too Many Requests."),
        (lambda c, _: reply(c, "307 T", Location="http://169.254.169.254/latest"), "not followed"),
        (lambda c, _: reply(c, "302 F", Location="https://elsewhere.example/"), "not followed"),
        (lambda c, a: reply(c, "307 T", Location=a.path + "a"), "not followed"),
    ],
)  # fmt: skip
def test_a_call_that_is_not_answered_fails_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Answer, why: str
) -> None:
    """The reason is the last answer's own, at once, and neither a stream that was refused before nor a trace of the SDK."""
    said = failure(tmp_path, {"tools__call": answer})
    assert why in said
    assert "405" not in said
    assert "pydantic" not in said
    assert "\n" not in said


def test_what_the_sdk_logs_is_not_written_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stranger's words reach the terminal in no other way than in the error."""
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    try:
        failure(tmp_path, {"tools__call": lambda c, _: reply(c, "200 OK", b"", kind="x/\x1b[31m")})
    finally:
        root.handlers = kept
    assert capfd.readouterr().err == ""


def test_an_answer_to_another_request_is_named(tmp_path: Path) -> None:
    """A server that answers the wrong id is given up when the time is over, and the error says what it did."""
    wrong = {"jsonrpc": "2.0", "id": 4_711, "result": {"content": []}}
    said = failure(tmp_path, {"tools__call": lambda c, _: document(c, wrong)}, call_s=0.3)
    assert "did not answer the tool echo within 0.3 s" in said
    assert "It answered a request that was not made, or was given up." in said


@pytest.mark.parametrize("way", ["its stream", "a call"])
def test_a_stream_that_ends_at_once_is_not_opened_in_a_circle(tmp_path: Path, way: str) -> None:
    """`retry: 0` and the end of the stream: it is opened again about once a second, not as fast as it can be."""

    def again(connection: socket.socket, _: Asked) -> bool:
        stream(connection, b"id: 1\nretry: 0\ndata: \n\n")
        return False

    answers: dict[str, Answer] = {"GET": again} | ({"tools__call": again} if way == "a call" else {})
    with hand(**answers) as server:

        async def talk(host: SessionServers) -> None:
            if way == "a call":
                with pytest.raises(JaatoError, match="did not answer"):
                    await call(host, "far", text="x")
            else:
                assert (await call(host, "far", text="x")).text == "x"
                await anyio.sleep(0.8)

        hosted(tmp_path, {"far": {"url": server.url, "call_timeout_s": 0.8}}, talk)
        assert sum(asked.method == "GET" for asked in server.seen) <= 10


def test_a_flood_of_lines_is_read_no_faster_than_it_can_be_looked_at() -> None:
    """Of a stream of short lines without end so many are taken at once, and so many a second."""

    class Flood(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b":\n" * 1_000

    async def main() -> int:
        guard = Guard(httpx2.MockTransport(lambda _: httpx2.Response(200)), anyio.Event(), older=False)
        lines = 0
        with anyio.move_on_after(0.5):
            async for chunk in Bounded(Flood(), guard, endless=True):
                lines += chunk.count(b"\n")
        return lines

    assert BURST_LINES <= anyio.run(main) <= BURST_LINES + 3 * LINES_A_SECOND


def test_progress_that_is_always_at_its_end_is_shown_now_and_then(tmp_path: Path) -> None:
    """A server that reports 1 of 1 without end fills neither the output of its call nor the time of the agent."""

    def flood(connection: socket.socket, asked: Asked) -> bool:
        token = asked.message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "total": 1}
        told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        stream(connection, b"data: " + json.dumps(told).encode() + b"\n\n")
        while True:
            connection.sendall((b"data: " + json.dumps(told).encode() + b"\n\n") * 10)

    said: list[str] = []
    with hand(tools__call=flood) as server:

        async def talk(host: SessionServers) -> None:
            with pytest.raises(JaatoError, match="did not answer"):
                await call(host, "far", text="x", call=Call("c-1", "x", {}, output=said.append))

        hosted(tmp_path, {"far": {"url": server.url, "call_timeout_s": 0.3}}, talk)
    assert 2 <= len(said) <= 60


def test_lists_that_change_without_end_are_asked_for_less_and_less(tmp_path: Path) -> None:
    """A storm of changes is no reason to list everything three times a second."""
    told = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'

    def storm(connection: socket.socket, _: Asked) -> bool:
        stream(connection)
        while True:
            connection.sendall(told)
            time.sleep(0.02)

    with hand(GET=storm) as server:

        async def talk(host: SessionServers) -> None:
            assert (await call(host, "far", text="x")).text == "x"
            await anyio.sleep(2.5)
            while count_lists() < 2:
                await anyio.sleep(0.02)

        def count_lists() -> int:
            return sum((asked.message or {}).get("method") == "tools/list" for asked in server.seen)

        hosted(tmp_path, {"far": {"url": server.url}}, talk)
        assert 2 <= count_lists() <= 5


@pytest.mark.parametrize("answer", ["404", "400"])
def test_a_server_that_has_forgotten_the_session_is_greeted_anew(tmp_path: Path, answer: str) -> None:
    """A server that was started anew, or has let the session go, knows it no more: the call begins another and succeeds,
    being run once."""
    sessions = count(1)
    calls: list[str] = []

    def greet(connection: socket.socket, asked: Asked) -> bool:
        told: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        told["serverInfo"] = {"name": "hand", "version": "1"}
        message = {"jsonrpc": "2.0", "id": asked.message["id"], "result": told}
        return document(connection, message, Mcp_Session_Id=f"session-{next(sessions)}")

    def run(connection: socket.socket, asked: Asked) -> bool:
        if calls and asked.headers["mcp-session-id"] == "session-1":
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            if answer == "400":
                return reply(connection, "400 Bad Request", body, kind="application/json")
            return reply(connection, "404 Not Found", b"no session")
        calls.append(asked.message["params"]["arguments"]["text"])
        return honest(connection, asked)

    with hand(initialize=greet, tools__call=run) as server:

        async def talk(host: SessionServers) -> list[str]:
            return [(await call(host, "far", text=text)).text for text in ("one", "two", "three")]

        assert hosted(tmp_path, {"far": {"url": server.url}}, talk) == ["one", "two", "three"]
    assert calls == ["one", "two", "three"]


def test_a_server_that_forgets_every_session_is_given_up(tmp_path: Path) -> None:
    """It is greeted anew once for one call, and the error says why that was no use."""
    with hand(tools__call=lambda c, _: reply(c, "404 Not Found")) as server:

        async def talk(host: SessionServers) -> str:
            with pytest.raises(JaatoError) as caught:
                await call(host, "far", text="x")
            return str(caught.value)

        said = hosted(tmp_path, {"far": {"url": server.url}}, talk)
        assert "far has forgotten its session: It answered HTTP 404 Not Found." in said
        assert sum((asked.message or {}).get("method") == "tools/call" for asked in server.seen) == 2


def test_an_old_server_that_refuses_a_message_is_not_waited_for(tmp_path: Path) -> None:
    """The older HTTP has no place for an answer to a message that was refused: the call fails at once all the same."""
    waiting: queue.Queue[bytes] = queue.Queue()

    def listen(connection: socket.socket, _: Asked) -> bool:
        stream(connection, b"event: endpoint\ndata: /messages\n\n")
        while True:
            try:
                connection.sendall(waiting.get(timeout=0.1))
            except queue.Empty:
                connection.sendall(b": nothing yet\n\n")

    def take(connection: socket.socket, asked: Asked) -> bool:
        reply(connection, "202 Accepted")
        if "id" in asked.message:
            told = {"jsonrpc": "2.0", "id": asked.message["id"], **result_of(asked.message)}
            waiting.put(b"event: message\ndata: " + json.dumps(told).encode() + b"\n\n")
        return True

    def refuse(connection: socket.socket, _: Asked) -> bool:
        return reply(connection, "500 Out of Order")

    methods = ("server__discover", "initialize", "notifications__initialized", "tools__list")
    answers: dict[str, Answer] = dict.fromkeys(methods, take)
    said = failure(tmp_path, {**answers, "GET": listen, "tools__call": refuse}, kind="sse")
    assert "ended before it answered the tool echo" in said
    assert "It answered HTTP 500 Out of Order." in said
