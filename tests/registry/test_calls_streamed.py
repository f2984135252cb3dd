"""Calls whose output is streamed: as server-sent events or lines of JSON, over lines of HTTP/1.1 and 1.0."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.contract.showing import SECRET
from tests.registry import speaking
from tests.registry.opened import Opened, during
from tests.server.serving import served

from jaato.protocol.events import Event, ToolCallEnd
from jaato.server.registry import running_call as heard
from jaato.testing.arp.peer import Served, fails
from jaato.tools.call import Call
from jaato.tools.tool import tool

SSE, LINES = "text/event-stream", "application/x-ndjson"
Said = list[tuple[str, Any]]


@tool(access="read")
async def speak(words: list[str], call: Call) -> int:
    """Say words, one after the other."""
    for word in words:
        call.output(word)
        await anyio.sleep(0)
    return len(words)


@tool(access="read")
def broken(call: Call) -> str:
    """Say something, then fail."""
    call.output("half")
    raise RuntimeError(SECRET)


@tool(access="execute")
def locked() -> str:
    """Say yes."""
    return "yes"


class Waiting:
    """A tool that speaks and waits until it is let go, or is cancelled."""

    def __init__(self) -> None:
        self.begun, self.over, self.go = threading.Event(), threading.Event(), threading.Event()

        @tool(name="wait", access="read")
        async def wait(call: Call, size: int = 1) -> str:
            """Say something and wait."""
            for _ in range(size // 50_000):
                call.output("x" * 50_000)
                await anyio.sleep(0)
            call.output("begun")
            self.begun.set()
            try:
                while not self.go.is_set():
                    await anyio.sleep(0.002)
            finally:
                self.over.set()
            return "done"

        self.tool = wait


def events_of(body: bytes) -> Said:
    """What a stream of server-sent events says, comments left out."""
    found: Said = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if lines:
            assert [line.split(": ")[0] for line in lines] == ["event", "data"]
            found.append((lines[0].split(": ", 1)[1], json.loads(lines[1].split(": ", 1)[1])))
    return found


def lines_of(body: bytes) -> Said:
    """What lines of JSON say."""
    told = [json.loads(line) for line in body.decode().splitlines()]
    return [
        (
            one["type"],
            one["result"] if one["type"] == "result" else {k: v for k, v in one.items() if k != "type"},
        )
        for one in told
    ]


FORMS: dict[str, Callable[[bytes], Said]] = {SSE: events_of, LINES: lines_of}


@contextmanager
def streaming(at: Served, name: str, args: object, **headers: str) -> Iterator[HTTPResponse]:
    """A call whose answer is not yet read."""
    connection = at.connection()
    with closing(connection):
        body = json.dumps({"args": args}).encode()
        connection.request("POST", f"/v1/tools/{name}:invoke", body, {**at.own(), **headers})
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # gone at once
        response = connection.getresponse()
        try:
            yield response
        finally:
            response.close()


def ends_of(one: Opened) -> list[ToolCallEnd]:
    """The ends of calls in the log."""
    caller = one.registry.callers.get("")
    assert caller is not None
    store = caller.session.journal.store
    events = [event for event in store.read(caller.session.state.session_id) if isinstance(event, Event)]
    return [event for event in events if isinstance(event, ToolCallEnd)]


def test_a_call_is_streamed_as_it_speaks(tmp_path: Path) -> None:
    """With `Accept` a call is answered by what it says as it says it, then by its result; what is wrong before it begins
    is answered plainly, with its status."""

    def body(one: Opened) -> None:
        for accept, read in FORMS.items():
            reply = one.at.invoke(
                "speak", {"args": {"words": ["a", "ü\n\n"]}}, accept=accept, x_request_id="r"
            )
            assert (reply.status, reply.headers["content-type"]) == (200, accept)
            assert (reply.headers["x-request-id"], reply.headers["cache-control"]) == ("r", "no-store")
            assert reply.headers["transfer-encoding"] == "chunked"
            *said, (last, result) = read(reply.body)
            assert "".join(told["text"] for _, told in said) == "aü\n\n"
            assert {kind for kind, _ in said} == {"output"}
            assert (last, result["ok"], result["result"]) == ("result", True, 2)
            [(_, quick)] = read(one.at.invoke("echo", {"args": {"text": "x"}}, accept=accept).body)
            assert quick["result"] == {"text": "x"}
            *_, (last, failed) = read(one.at.invoke("broken", {"args": {}}, accept=accept).body)
            assert (last, failed["ok"], failed["error"]["code"]) == ("result", False, "tool.handler_error")
            assert SECRET not in json.dumps(failed)
            fails(one.at.invoke("speak", {"args": {"words": 1}}, accept=accept), 400, "tool.invalid_args")
            fails(one.at.invoke("speak", b"{", accept=accept), 400, "request.invalid_json")
            fails(one.at.invoke("nothing", {"args": {}}, accept=accept), 404, "tool.not_found")
            fails(one.at.invoke("locked", {"args": {}}, accept=accept), 403, "permission.denied")

    during(tmp_path, body, tools=(speak, broken, locked), deny=("locked",))


def test_lines_of_old_and_new_http_carry_streams(tmp_path: Path) -> None:
    """A line goes on after a stream; HTTP/1.0 has the stream until the line is closed; a stream begins before its end."""
    waits = Waiting()
    call = b'{"args": {"words": ["a"]}}'

    def body(one: Opened) -> None:
        accept = f"accept: {LINES}"
        post = one.at.head("POST", "/v1/tools/speak:invoke", accept, f"content-length: {len(call)}") + call
        replies = one.at.raw(post + post + one.at.head("GET", "/v1/tools"), "POST", "POST", "GET")
        assert [reply.status for reply in replies] == [200, 200, 200]
        assert [lines_of(reply.body)[-1][1]["result"] for reply in replies[:2]] == [1, 1]
        for extra in (b"", b"connection: keep-alive\r\n"):
            with closing(one.at.line()) as line:
                line.sendall(post.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n" + extra))
                found = b"".join(iter(lambda line=line: line.recv(9_999), b""))  # type: ignore[misc]
            head, _, rest = found.partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert b"connection: close" in head
            assert [kind for kind, _ in lines_of(rest)] == ["output", "result"]
        with streaming(one.at, "wait", {}, accept=SSE) as response:
            assert response.readline() == b"event: output\n"
            assert response.readline() == b'data: {"text":"begun"}\n'
            waits.go.set()
            assert events_of(response.read().lstrip(b"\n"))[-1][1]["result"] == "done"

    during(tmp_path, body, tools=(speak, waits.tool))


def test_who_stops_listening_ends_the_call(tmp_path: Path) -> None:
    """A client that goes in the middle of a stream ends its call, and the log says so."""
    waits = Waiting()

    def body(one: Opened) -> None:
        with streaming(one.at, "wait", {}, accept=SSE) as response:
            assert response.readline()
        assert waits.over.wait(60)
        assert one.at.invoke("echo", {"args": {"text": "x"}}).status == 200
        problem = ends_of(one)[0].result.error
        assert problem is not None
        assert problem.code == "cancelled"

    during(tmp_path, body, tools=(waits.tool,))


def test_a_client_that_does_not_read_holds_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a slow client leaves unread is dropped beyond a bound, which it is told; the tool waits for nobody, and the result
    comes whole. While nothing is said a sign of life is."""
    monkeypatch.setattr(heard, "MAX_BUFFERED_CHARS", 60_000)
    monkeypatch.setattr(heard, "KEEP_ALIVE_S", 0.01)
    size = 10_000_000
    waits = Waiting()

    def body(one: Opened) -> None:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        host, _, port = one.at.url.removeprefix("http://").partition(":")
        with closing(line):
            line.settimeout(60)
            line.connect((host, int(port)))
            data = json.dumps({"args": {"size": size}}).encode()
            head = one.at.head(
                "POST", "/v1/tools/wait:invoke", f"accept: {SSE}", f"content-length: {len(data)}"
            )
            line.sendall(head + data)
            assert waits.begun.wait(60)
            response = HTTPResponse(line)
            response.begin()
            seen, dropped, beats = 0, 0, 0
            while not waits.go.is_set():
                text = response.readline()
                beats += text.startswith(b":")
                if text.startswith(b"data: "):
                    told = json.loads(text[6:])
                    seen, dropped = seen + len(told["text"]), dropped + told.get("dropped", 0)
                if seen + dropped == size + len("begun") and beats:
                    waits.go.set()
            assert 0 < seen < size
            rest = events_of(response.read().lstrip(b"\n"))
            assert rest[-1][1]["result"] == "done"

    during(tmp_path, body, tools=(waits.tool,))


def test_the_door_of_the_server_streams_too(tmp_path: Path) -> None:
    """On the one application a call is streamed as well; a client that goes ends its call, whether it is streamed or not."""

    def body(at: Served) -> None:
        for accept in (SSE, "application/json"):
            for event in (speaking.BEGUN, speaking.OVER):
                event.clear()
            with closing(at.line()) as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                lines = (f"accept: {accept}", "content-length: 12")
                line.sendall(at.head("POST", "/v1/tools/wait:invoke", *lines) + b'{"args": {}}')
                assert speaking.BEGUN.wait(60)
            assert speaking.OVER.wait(60)
        with streaming(at, "wait", {}, accept=SSE) as response:
            assert response.getheader("content-type") == SSE
            assert response.readline() == b"event: output\n"
            speaking.GO.set()
            assert events_of(response.read().partition(b"\n\n")[2])[-1][1]["result"] == "done"
        results = at.send("POST", "/v1/tools:batchInvoke", {"calls": [{"name": "wait", "args": {}}] * 2}).json
        assert [one["result"] for one in results] == ["done", "done"]

    async def main() -> None:
        environ = {"HOME": str(tmp_path), "TOOL_REGISTRY_DOMAINS": "core,tests.registry.speaking"}
        async with served(tmp_path, [], environ=environ) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            await anyio.to_thread.run_sync(body, at)

    anyio.run(main)
