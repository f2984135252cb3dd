"""The registry's door from within: its log, its bounds, its lines."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.contract.serving import Opened, run, run_both

from jaato.protocol.arp import Invocation
from jaato.protocol.events import ToolCallEnd, ToolCallStart, WorkspaceFilesChanged
from jaato.server.http import connection as http_connection
from jaato.server.registry import application
from jaato.testing.arp.peer import Served, fails, read, refuses, result_of
from jaato.tools.call import Call
from jaato.tools.tool import tool

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.spec("S2", "Runtime integration")
def test_a_call_is_in_the_log_by_the_ids_it_is_known_by(tmp_path: Path) -> None:
    """Request, trace, flow and step are in the log with the call; `context` and `trace` reach the tool, not its arguments."""
    seen: list[Invocation] = []

    @tool(access="read")
    def look(call: Call) -> str:
        """Look."""
        seen.append(call.services["invocation"])
        return "looked"

    def body(one: Opened) -> None:
        given = {"args": {}, "context": {"user": "u"}, "trace": {"flow_id": "f-1", "step_id": "s-1", "n": 1}}
        header = f"00-{TRACE}-b7ad6b7169203331-01"
        reply = one.at.invoke("look", given, x_request_id="r-1", traceparent=header)
        assert result_of(reply, 200)["result"] == "looked"

        events = [event for event in one.log() if isinstance(event, ToolCallStart | ToolCallEnd)]
        known = {"request_id": "r-1", "trace_id": TRACE, "flow_id": "f-1", "step_id": "s-1"}
        assert [event.origin for event in events if event.origin is not None] == [known]
        assert [event.arguments for event in events if event.arguments is not None] == [{}]
        assert [event.result.ok for event in events if isinstance(event, ToolCallEnd)] == [True]
        assert (seen[0].context, seen[0].trace) == (given["context"], given["trace"])

    run(tmp_path, body, tools=(look,))


def test_what_asks_is_denied(tmp_path: Path) -> None:
    """A tool of a plugin that would have to be asked about is denied, for nobody can be; nothing has happened then."""

    def body(one: Opened) -> None:
        given = {"args": {"path": "made.txt", "content": "x"}}
        error = fails(one.at.invoke("writeNewFile", given), 403, "permission.denied")
        assert error["message"].startswith("Permission denied for writeNewFile")
        assert not (tmp_path / "made.txt").exists()
        assert one.at.invoke("readFile", {"args": {"path": "notes.txt"}}).status == 200
        denied, read = [event for event in one.log() if isinstance(event, ToolCallEnd)]
        assert (denied.result.ok, read.result.ok) == (False, True)

    (tmp_path / "notes.txt").write_text("something")
    run(tmp_path, body, plugins=("file_edit",))


def test_what_changes_files_is_in_the_log(tmp_path: Path) -> None:
    """A call that changes a file is answered, and the log has the change before the end of the call."""

    def body(one: Opened) -> None:
        for path in ("a.txt", "b.txt"):
            result_of(one.at.invoke("writeNewFile", {"args": {"path": path, "content": "x"}}), 200)
        kinds = [ToolCallStart, WorkspaceFilesChanged, ToolCallEnd]
        assert [type(event) for event in one.log()][-6:] == kinds * 2

    run(tmp_path, body, plugins=("file_edit",), yes=True)


def test_results_of_any_size_come_whole(tmp_path: Path) -> None:
    """Data, text and nothing are given as they are, also where the log keeps only their ends."""
    large: dict[str, object] = {"rows": [{"number": number, "text": "ü" * 50} for number in range(2_000)]}

    @tool(access="read")
    def rows() -> dict[str, object]:
        """Give many rows."""
        return large

    @tool(access="read")
    def text(size: int) -> str:
        """Give a text that looks like JSON."""
        return "[" * size

    @tool(access="read")
    def nothing() -> None:
        """Give nothing."""

    def body(one: Opened) -> None:
        assert result_of(one.at.invoke("rows", {"args": {}}), 200)["result"] == large
        for size in (1, 40_000):
            assert result_of(one.at.invoke("text", {"args": {"size": size}}), 200)["result"] == "[" * size
        assert result_of(one.at.invoke("nothing", {"args": {}}), 200)["result"] is None

    run(tmp_path, body, tools=(rows, text, nothing))


def test_a_client_that_goes_ends_its_call(tmp_path: Path) -> None:
    """A call whose client has gone is cancelled, and the log says so; others go on."""
    begun, over = threading.Event(), threading.Event()

    @tool(access="read")
    async def wait() -> None:
        """Wait without end."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            over.set()

    def body(one: Opened) -> None:
        data = b'{"args": {}}'
        with closing(one.at.line()) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # gone at once
            line.sendall(one.at.head("POST", "/v1/tools/wait:invoke", f"content-length: {len(data)}") + data)
            assert begun.wait(60)
        assert over.wait(60)
        assert one.at.invoke("echo", {"args": {"text": "x"}}).status == 200
        ends = [event for event in one.log() if isinstance(event, ToolCallEnd)]
        problem = ends[0].result.error
        assert problem is not None
        assert problem.code == "cancelled"

    run(tmp_path, body, tools=(wait,))


def test_who_is_slow_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that says nothing, a head and a body that do not end: each has its time, and is closed then."""
    monkeypatch.setattr(http_connection, "REQUEST_S", 0.3)
    monkeypatch.setattr(application, "BODY_S", 0.3)
    monkeypatch.setattr(application, "LINGER_S", 0.1)

    def body(one: Opened) -> None:
        with closing(one.at.line()) as line:
            assert line.recv(1_000) == b""
        for data in (b"GET /v1/to", one.at.head("GET", "/v1/tools")[:-2]):
            with closing(one.at.line()) as line:
                line.sendall(data)
                refuses(read(line), 408, "request.timeout")
                assert line.recv(1) == b""
        with closing(one.at.line()) as line:
            line.sendall(one.at.head("POST", "/v1/tools/echo:invoke", "content-length: 20") + b'{"args"')
            fails(read(line, "POST"), 408, "request.timeout")
            assert line.recv(1) == b""

    run(tmp_path, body)


def test_a_body_has_the_length_that_is_set(tmp_path: Path) -> None:
    """`tool_registry_body_bytes` bounds a body; what has just this length is taken."""

    def body(one: Opened) -> None:
        one.registry.max_body_bytes = 100
        fits = json.dumps({"args": {"text": "x"}}).ljust(100).encode()
        assert one.at.invoke("echo", fits).status == 200
        fails(one.at.invoke("echo", fits + b" "), 413, "request.too_large")
        chunked = one.at.head("POST", "/v1/tools/echo:invoke", "transfer-encoding: chunked")
        fails(one.at.raw(chunked + b"65\r\n%b\r\n" % (b" " * 101), "POST")[0], 413, "request.too_large")

    run(tmp_path, body)


def test_who_asks_again_before_an_answer_is_answered_in_order(tmp_path: Path) -> None:
    """At both doors a bad request behind good ones is answered after them, and what comes after it is not read."""
    call = b'{"args": {"text": "x"}}'

    def check(at: Served) -> None:
        post = at.head("POST", "/v1/tools/echo:invoke", f"content-length: {len(call)}") + call
        with closing(at.line()) as line:
            line.sendall(post + post + b"NONSENSE\r\n\r\n" + post)
            assert [read(line).status for _ in range(3)] == [200, 200, 400]
            assert line.recv(1) == b""

    run_both(tmp_path, check)


def test_who_has_said_all_is_still_answered(tmp_path: Path) -> None:
    """A client that ends its side of the connection after its requests is answered, then the connection ends."""
    call = b'{"args": {"text": "x"}}'

    def body(one: Opened) -> None:
        post = one.at.head("POST", "/v1/tools/echo:invoke", f"content-length: {len(call)}") + call
        for said, count in ((post + post, 2), (post + one.at.head("GET", "/v1/tools"), 2), (b"", 0)):
            with closing(one.at.line()) as line:
                line.sendall(said)
                line.shutdown(socket.SHUT_WR)
                assert [read(line).status for _ in range(count)] == [200] * count
                assert line.recv(1) == b""

    run(tmp_path, body)


def test_a_name_twice_in_an_object_is_no_call(tmp_path: Path) -> None:
    """A body in which a name stands twice is refused, wherever it stands; one in a text is none."""

    def body(one: Opened) -> None:
        for bad in (
            b'{"args": {"text": "a", "text": "b"}}',
            b'{"args": {"text": "a"}, "args": {"text": "b"}}',
            b'{"args" : {"text" : "a", "text" : "b"}}',
            b'{"args": {"text": "a"}, "other": [{"x": 1, "x": 2}]}',
        ):
            fails(one.at.invoke("echo", bad), 400, "request.invalid_json")
        for good in (
            b'{"args": {"text": "{\\"a\\": 1, \\"a\\": 2}"}}',
            b'{ "args" : {"text" : "a"}, "other": {"args": 1}}',
        ):
            assert one.at.invoke("echo", good).status == 200

    run(tmp_path, body)


def test_a_thread_that_is_too_slow_is_not_said_to_be_stopped(tmp_path: Path) -> None:
    """Nobody can stop a thread: that it may go on is said to who would make the call again."""
    free = threading.Event()

    @tool(access="read")
    def deaf() -> None:
        """Wait in a thread."""
        free.wait(60)

    def body(one: Opened) -> None:
        error = fails(one.at.invoke("deaf", {"args": {}}, prefer="wait=0"), 504, "tool.timeout")
        free.set()
        assert error["message"].endswith("was told to stop; it may still be at work.")

    run(tmp_path, body, tools=(deaf,))
