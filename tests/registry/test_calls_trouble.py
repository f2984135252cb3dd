"""Calls in trouble: a log that takes nothing more, a server that is killed or told to end, a client that goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.cli.warm import warm
from tests.registry.opened import Opened, during, until
from tests.registry.test_calls_bounded import Beside
from tests.server.serving import served

from jaato.settings import environment
from jaato.testing.arp.peer import Served, fails
from jaato.tools.tool import tool, tool_from

GONE = b"\1\0\0\0\0\0\0\0"
"""SO_LINGER: the connection is reset when it is closed."""


SAID = "the password is hunter2"


@tool(access="read")
def exits() -> str:
    """End the program."""
    sys.exit(SAID)


@tool(access="read")
async def exits_there() -> str:
    """End the program."""
    sys.exit(SAID)


@tool(access="read")
async def cancels() -> str:
    """Cancel itself."""
    raise asyncio.CancelledError(SAID)


def test_what_would_end_the_program_ends_its_call_and_says_nothing(tmp_path: Path) -> None:
    """A tool that exits, or cancels itself, has failed inside: its words are in no answer, and the registry goes on."""

    def body(one: Opened) -> None:
        chosen = [tool_from(each) for each in (exits, exits_there, cancels)]
        one.put(*chosen)
        for each in chosen:
            reply = one.at.invoke(each.name, {"args": {}})
            fails(reply, 500, "tool.handler_error")
            assert SAID not in reply.body.decode()
        empty = one.at.send("POST", "/v1/tools/calc:invoke", b"")
        assert "empty" in fails(empty, 400, "request.invalid_json")["message"]

    during(tmp_path, body, domains=["core"])


def test_a_log_that_takes_nothing_more_is_no_reason_to_do_things_twice(tmp_path: Path) -> None:
    """What was done and could not be recorded is told as what may have been carried out, also to who asks again with its key;
    what was not begun is told as that, and may be tried again. With room again all is as before."""
    ran: list[str] = []
    log: list[Callable[[int], None]] = []

    @tool(access="execute")
    def fills() -> str:
        """Take all room there is."""
        ran.append("fills")
        log[0](1)
        return "x" * 29_000

    @tool(access="execute")
    def does(text: str) -> str:
        """Do something."""
        ran.append("does")
        return text

    @tool(access="read")
    def looks() -> str:
        """Look."""
        return "x" * 29_000

    def body(one: Opened) -> None:
        connection = one.registry.callers.store._guard._connection  # type: ignore[attr-defined]
        log.append(lambda pages: connection.execute(f"PRAGMA max_page_count = {pages}"))
        long = {"args": {"text": "x" * 29_000}}
        for key in ({}, {"idempotency_key": "k"}):
            done = one.at.invoke("fills", {"args": {}}, **key)
            assert fails(done, 500, "tool.outcome_unknown")["retryable"] is False
            refused = one.at.invoke("does", long, **key and {"idempotency_key": "does"})
            assert fails(refused, 503, "registry.unavailable")["retryable"] is True
            assert refused.headers["retry-after"] == "1"
            assert str(tmp_path) not in refused.body.decode()
            looking = {"idempotency_key": f"look-{len(key)}"}
            fails(one.at.invoke("looks", {"args": {}}, **looking), 503, "registry.unavailable")
            batch = {"calls": [{"name": "does", **long}] * 3}
            results = one.at.send("POST", "/v1/tools:batchInvoke", batch).json
            assert {each["error"]["code"] for each in results} == {"registry.unavailable"}
            log[0](1_000_000)
            assert one.at.invoke("does", long, **key and {"idempotency_key": "does"}).status == 200
            assert "idempotent-replayed" not in one.at.invoke("looks", {"args": {}}, **looking).headers
            assert one.at.invoke("looks", {"args": {}}, **looking).headers["idempotent-replayed"] == "true"
        again = one.at.invoke("fills", {"args": {}}, idempotency_key="k")
        assert fails(again, 500, "tool.outcome_unknown") == done.json["error"]
        assert ran == ["fills", "does", "fills", "does"]

    during(tmp_path, body, tools=(fills, does, looks), allow=("fills", "does"))


def long_command(mark: str) -> str:
    """One that leaves a note and sleeps, as does what it has started in a session of its own."""
    return f"echo begun | tee -a notes; (exec setsid sleep 1000.{mark}) & sleep 1000.{mark}"


def sleeping(mark: str) -> int:
    """How many of its sleeps there are, counted from outside of any sandbox."""
    found = 0
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it goes while it is read
            found += place.read_bytes() == f"sleep\0001000.{mark}\0".encode()
    return found


def test_nothing_of_a_call_is_left_when_its_client_or_its_server_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command and what it has started end when its client goes, when it is cancelled, and when the server ends, which says
    so to who still waits."""
    monkeypatch.setattr("jaato.server.registry.application.DRAIN_S", 0.05)
    mark = str(uuid.uuid4().int)
    beside = Beside()
    data = json.dumps({"args": {"command": long_command(mark)}}).encode()

    def body(one: Opened) -> None:
        with closing(one.at.line()) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, GONE)
            line.sendall(one.at.head("POST", "/v1/tools/run:invoke", f"content-length: {len(data)}") + data)
            until(lambda: sleeping(mark) == 2)
        until(lambda: sleeping(mark) == 0)
        beside.ask(lambda: one.at.invoke("run", data, accept="text/event-stream", x_request_id="r-1"))
        until(lambda: sleeping(mark) == 2)
        assert one.at.send("POST", "/v1/tools:cancel", {"request_id": "r-1"}).status == 200
        until(lambda: sleeping(mark) == 0)
        beside.ask(lambda: one.at.invoke("run", data, idempotency_key="k"))
        until(lambda: sleeping(mark) == 2)

    during(tmp_path, body, plugins=("cli",), yes=True)
    cancelled, ended = beside.done()
    assert b'event: output\ndata: {"text":"begun\\n"}' in cancelled.body
    assert b'"code":"tool.cancelled"' in cancelled.body
    fails(ended, 503, "tool.cancelled")
    assert sleeping(mark) == 0


@contextmanager
def process(home: Path) -> Iterator[tuple[Served, int]]:
    """A registry with commands in a process of its own, which is killed in the end."""
    environ = {**environment(), "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    words = ["registry", "serve", "--port", "0", "--plugins", "cli", "--yes", "--workspace", str(home)]
    with warm().start(words, cwd=home, env=environ, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        where, _, path = running.stderr.readline().decode().strip().partition("; the token is in ")
        try:
            yield Served(where.partition(" at ")[2], token=Path(path).read_text().strip()), running.pid
        finally:
            running.kill()


def lost(at: Served, data: object) -> None:
    """Make a call that is not answered."""
    with pytest.raises((OSError, HTTPException)):
        at.invoke("run", data, idempotency_key="k")


def test_a_call_whose_server_was_killed_is_not_made_again(tmp_path: Path) -> None:
    """After kill -9 in the middle of a call nothing of it runs on; with its key the next server says that it may have been
    carried out, and does nothing. Another key is another call."""
    mark = str(uuid.uuid4().int)
    data = {"args": {"command": long_command(mark)}}
    with process(tmp_path) as (at, pid):
        thread = threading.Thread(target=lost, args=(at, data))
        thread.start()
        until(lambda: sleeping(mark) == 2)
        os.kill(pid, signal.SIGKILL)
        thread.join(60)
    until(lambda: sleeping(mark) == 0)
    with process(tmp_path) as (at, _):
        for _ in range(2):
            error = fails(at.invoke("run", data, idempotency_key="k"), 500, "tool.outcome_unknown")
            assert (error["retryable"], "may have been carried out" in error["message"]) == (False, True)
        fails(
            at.invoke("run", {"args": {"command": "true"}}, idempotency_key="k"),
            422,
            "request.idempotency_mismatch",
        )
        assert at.invoke("run", {"args": {"command": "true"}}, idempotency_key="n").status == 200
        assert (tmp_path / "notes").read_text() == "begun\n"


def test_what_is_done_no_more_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where what is to be done again and again breaks off, the log says so while the registry still serves, alone and as a
    door of a server, which has others."""
    monkeypatch.setattr("jaato.server.registry.registered.registration.LOOK_S", None)

    def goes_on(at: Served) -> None:
        caplog.clear()
        assert at.invoke("echo", {"args": {"text": "x"}}).status == 200
        until(lambda: "Maintenance of the registry has failed" in caplog.text)
        assert at.invoke("echo", {"args": {"text": "x"}}).status == 200

    async def mounted() -> None:
        async with served(tmp_path / "server", []) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)
            await anyio.to_thread.run_sync(goes_on, at)

    def alone(one: Opened) -> None:
        assert one.at.invoke("echo", {"args": {"text": "x"}}).status == 200
        until(lambda: "Maintenance of the registry has failed" in caplog.text)
        assert one.at.invoke("echo", {"args": {"text": "x"}}).status == 200

    during(tmp_path, alone)
    anyio.run(mounted)
