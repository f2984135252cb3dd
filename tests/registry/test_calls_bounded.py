"""Several calls at once, how long and how many may run, and what ends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.registry.opened import Opened, during, made, until
from tests.registry.test_calls_streamed import ends_of

from jaato.errors import ConfigError
from jaato.server.registry import limits
from jaato.server.registry.limits import parse_concurrency_limits
from jaato.testing.arp.peer import Reply, fails, refuses, result_of
from jaato.tools.tool import tool

ALL, CANCEL = "/v1/tools:batchInvoke", "/v1/tools:cancel"


class Held:
    """A tool whose calls wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.now = self.most = 0

    @tool(access="execute", timeout_s=50.0)
    async def held(self) -> str:
        """Wait to be let go."""
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        try:
            while not self.go.is_set():
                await anyio.sleep(0.002)
        finally:
            self.now -= 1
        return "done"

    @tool(access="read", timeout_s=0.01)
    async def late(self) -> None:
        """Take too long."""
        await anyio.sleep_forever()

    @tool(access="read", timeout_s=50.0)
    async def reads(self) -> None:
        """Look, without end."""
        self.begun.release()
        await anyio.sleep_forever()

    @tool(access="execute", background_after_s=0.0)
    async def slow(self, background: bool = False) -> str:
        """Take longer than others wait."""
        await anyio.sleep(0.01)
        return f"waited {background}"

    @tool(access="execute")
    async def locked(self) -> str:
        """Say yes."""
        return "yes"

    def blueprint(self) -> dict[str, Any]:
        """What a registry is to serve."""
        tools = (self.held, self.late, self.reads, self.slow, self.locked)
        return {"tools": tools, "allow": ("held", "slow", "numbered"), "deny": ("locked",)}


class Beside:
    """Requests in threads of their own."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self._threads: list[threading.Thread] = []

    def ask(self, send: Callable[[], Reply]) -> None:
        """Send a request; its reply is among the others."""
        thread = threading.Thread(target=lambda: self.replies.append(send()))
        thread.start()
        self._threads.append(thread)

    def done(self) -> list[Reply]:
        """All replies."""
        for thread in self._threads:
            thread.join(30)
        return self.replies


def codes_of(results: list[dict[str, Any]]) -> list[str]:
    """The code of each result that has one, else "ok"."""
    return [one["error"]["code"] if "error" in one else "ok" for one in results]


def test_several_calls_are_answered_in_order_each_for_itself(tmp_path: Path) -> None:
    """`batchInvoke` gives an array of results in the order of its calls, which run at the same time; what is wrong with one is
    its own affair, and what is wrong with the body that of the request."""
    held = Held()

    def body(one: Opened) -> None:
        one.put(made("numbered", "1.0.0"), made("numbered", "2.0.0"))
        calls = [
            {"name": "echo", "args": {"text": "a"}, "context": {"n": 1}, "trace": {"flow_id": "f-1"}},
            {"name": "nothing", "args": {}},
            {"name": "calc", "args": {"expression": 1}},
            {"name": "locked", "args": {}},
            {"name": "echo"},
            {"args": {}},
            7,
            {"name": "late", "args": {}},
            {"name": "numbered", "args": {}, "version": "1.0.0"},
            {"name": "numbered", "args": {}},
            {"name": "numbered", "args": {}, "version": "3"},
            {"name": "echo", "args": {"text": "b"}, "schema_version": "9.0.0"},
            {"name": "echo", "args": {"text": "z"}},
        ]
        reply = one.at.send("POST", ALL, {"calls": calls}, x_request_id="r-9")
        assert (reply.status, reply.headers["x-request-id"]) == (200, "r-9")
        results = reply.json
        assert codes_of(results) == [
            "ok", "tool.not_found", "tool.invalid_args", "permission.denied", *["request.invalid_shape"] * 3,
            "tool.timeout", "ok", "ok", "tool.not_found", "request.invalid_shape", "ok",
        ]  # fmt: skip
        values = [one["result"] for one in results if one["ok"]]
        assert values == [{"text": "a"}, "numbered 1.0.0", "numbered 2.0.0", {"text": "z"}]
        for one_result in results:
            whole = Reply(200 if one_result["ok"] else 500, reply.headers, json.dumps(one_result).encode())
            result_of(whole, whole.status)
        assert one.at.send("POST", "/v1/tools%3AbatchInvoke", {"calls": []}).json == []
        for bad, code in (
            (b"{", "request.invalid_json"),
            ({"calls": {}}, "request.invalid_shape"),
            ({}, "request.invalid_shape"),
            ([], "request.invalid_shape"),
            ({"calls": [{"name": "echo", "args": {"text": "a"}}] * 65}, "request.invalid_shape"),
            (b'{"calls": [{"name": "echo", "name": "calc", "args": {}}]}', "request.invalid_json"),
        ):
            fails(one.at.send("POST", ALL, bad), 400, code)
        assert one.at.send("GET", ALL).headers["allow"] == "POST"
        beside = Beside()
        many = {"calls": [{"name": "held", "args": {}}] * 64}
        beside.ask(lambda: one.at.send("POST", ALL, many))
        for _ in range(64):
            assert held.begun.acquire(timeout=60)
        held.go.set()
        assert codes_of(beside.done()[0].json) == ["ok"] * 64

    during(tmp_path, body, **held.blueprint())


def test_a_call_has_the_time_that_is_asked_for_and_no_more_than_its_tool_has(tmp_path: Path) -> None:
    """A tool's own time ends its call, or what is set for those that have none: 504; `Prefer: wait` asks for less, never for
    more, and is acknowledged where it counts. A call waits for its end where others go on in the background, unless it asks
    for that itself."""
    held = Held()

    def body(one: Opened) -> None:
        for prefer in ({}, {"prefer": "wait=100"}):
            reply = one.at.invoke("late", {"args": {}}, **prefer)
            assert fails(reply, 504, "tool.timeout")["retryable"] is True
            assert "preference-applied" not in reply.headers
        reply = one.at.invoke("held", {"args": {}}, prefer="respond-async, wait=0")
        error = fails(reply, 504, "tool.timeout")
        assert "within 0 s" in error["message"]
        assert (error["retryable"], error["details"]) == (True, {"begun": True, "tool_name": "held"})
        for _ in range(2):  # with a key nothing is done twice, and the answer is another for no other attempt
            reply = one.at.invoke("held", {"args": {}}, prefer="wait=0", idempotency_key="k-1")
            assert fails(reply, 504, "tool.timeout")["details"] == {"begun": True, "tool_name": "held"}
        assert reply.headers["preference-applied"] == "wait=0"
        one.registry.calls.within_s = 0.01
        fails(one.at.invoke("forever", {"args": {}}), 504, "tool.timeout")
        fails(one.at.invoke("forever", {"args": {}}, idempotency_key="k"), 504, "tool.timeout")
        one.registry.calls.within_s = None
        assert result_of(one.at.invoke("slow", {"args": {}}), 200)["result"] == "waited False"
        promised = result_of(one.at.invoke("slow", {"args": {"background": True}}), 200)["result"]
        assert promised["task_id"]
        codes = [end.result.error.code for end in ends_of(one) if end.result.error is not None]
        assert codes == ["tool_timeout"] * 6

    @tool(access="read")
    async def forever() -> None:
        """Wait without end."""
        await anyio.sleep_forever()

    blueprint = held.blueprint()
    blueprint["tools"] = (*blueprint["tools"], forever)
    during(tmp_path, body, **blueprint)


def test_a_tool_has_so_many_places_and_a_short_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many calls of a tool run as it has places; a few wait, in order and not longer than they like; who comes then is
    told to come later. Other tools have places of their own."""
    monkeypatch.setattr(limits, "MAX_WAITING", 2)
    held = Held()

    def body(one: Opened) -> None:
        calls = one.registry.calls
        assert calls.limits is not None
        waiting, running = calls.limits._waiting, calls.limits._running
        beside = Beside()
        for _ in range(2):
            beside.ask(lambda: one.at.invoke("held", {"args": {}}))
        for _ in range(2):
            assert held.begun.acquire(timeout=60)
        fails(one.at.invoke("held", {"args": {}}, prefer="wait=0"), 504, "tool.timeout")
        with closing(one.at.line()) as line:  # one that goes while it waits
            line.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: gone at once
            line.sendall(one.at.head("POST", "/v1/tools/held:invoke", "content-length: 12") + b'{"args": {}}')
            until(lambda: waiting["held"] == 1)
        until(lambda: not waiting["held"])
        for number in range(2):
            beside.ask(lambda number=number: one.at.invoke("held", {"args": {}}, x_request_id=f"w-{number}"))  # type: ignore[misc]
        until(lambda: waiting["held"] == 2)
        reply = one.at.invoke("held", {"args": {}})
        assert fails(reply, 429, "request.too_many")["retryable"] is True
        assert reply.headers["retry-after"] == "1"
        assert one.at.invoke("echo", {"args": {"text": "x"}}).status == 200
        assert one.at.send("POST", CANCEL, {"request_id": "w-1"}).json == {
            "request_id": "w-1",
            "cancelled": 1,
        }
        held.go.set()
        assert sorted(reply.status for reply in beside.done()) == [200, 200, 200, 503]
        assert held.most == 2
        assert (running.total(), waiting.total()) == (0, 0)

    (tmp_path / ".config/jaato").mkdir(parents=True)
    (tmp_path / ".config/jaato/config.toml").write_text('tool_registry_at_once = ["held=2", "*=100"]\n')
    during(tmp_path, body, **held.blueprint())


def test_what_is_set_for_places_is_checked() -> None:
    """`tool_registry_at_once` names tools and numbers."""
    assert parse_concurrency_limits(["run=4", " * = 16 "]) == {"run": 4, "*": 16}
    for bad in ("run", "run=", "run=0", "run=-1", "=3", "run=x", "run=99999"):
        with pytest.raises(ConfigError, match="tool_registry_at_once"):
            parse_concurrency_limits([bad])


def test_a_call_is_cancelled_by_the_id_of_its_request(tmp_path: Path) -> None:
    """Whoever made a call cancels it by its request's id; it is answered so, and with it all calls of the request. What is not
    under way is not found."""
    held = Held()

    def body(one: Opened) -> None:
        beside = Beside()
        beside.ask(lambda: one.at.invoke("held", {"args": {}}, x_request_id="r-1"))
        many = {"calls": [{"name": "held", "args": {}}] * 3}
        beside.ask(lambda: one.at.send("POST", ALL, many, x_request_id="r-2"))
        beside.ask(lambda: one.at.invoke("reads", {"args": {}}, x_request_id="r-3"))
        for _ in range(5):
            assert held.begun.acquire(timeout=60)
        refuses(one.at.send("POST", CANCEL, {"request_id": "r-0"}), 404, "call.not_found")
        refuses(one.at.send("POST", CANCEL, {"request_id": 1}), 400, "request.invalid_shape")
        refuses(one.at.send("POST", CANCEL, b"["), 400, "request.invalid_json")
        assert one.at.send("POST", CANCEL, {"request_id": "r-1"}).json["cancelled"] == 1
        assert one.at.send("POST", CANCEL, {"request_id": "r-2"}).json["cancelled"] == 3
        assert one.at.send("POST", CANCEL, {"request_id": "r-3"}).json["cancelled"] == 1
        replies = {reply.headers["x-request-id"]: reply for reply in beside.done()}
        error = fails(replies["r-1"], 503, "tool.cancelled")
        assert (error["retryable"], error["details"]["begun"]) == (True, True)
        error = fails(replies["r-3"], 503, "tool.cancelled")
        assert (error["retryable"], "begun" in error["details"]) == (True, False)
        assert codes_of(replies["r-2"].json) == ["tool.cancelled"] * 3
        refuses(one.at.send("POST", CANCEL, {"request_id": "r-1"}), 404, "call.not_found")
        codes = [end.result.error.code for end in ends_of(one) if end.result.error is not None]
        assert (codes, held.now) == (["cancelled"] * 5, 0)

    during(tmp_path, body, **held.blueprint())


def test_a_result_beyond_the_bound_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is too large is no reason to make the call again, with a key or without."""
    monkeypatch.setattr("jaato.server.registry.running_call.MAX_RESULT_BYTES", 40_000)

    @tool(access="read")
    def much() -> str:
        """Give much."""
        return "x" * 50_000

    def body(one: Opened) -> None:
        for headers in ({}, {"idempotency_key": "k"}, {"idempotency_key": "k"}):
            reply = one.at.invoke("much", {"args": {}}, **headers)
            assert fails(reply, 500, "tool.result_too_large")["retryable"] is False
        monkeypatch.setattr("jaato.server.registry.running_call.MAX_RESULT_BYTES", 80_000)
        monkeypatch.setattr("jaato.server.registry.invoke.MAX_BATCH_BYTES", 120_000)
        calls = [*[{"name": "much", "args": {}}] * 4, {"name": "echo", "args": {"text": "small"}}]
        results = one.at.send("POST", ALL, {"calls": calls}).json
        assert codes_of(results) == ["ok", "ok", *["tool.result_too_large"] * 2, "ok"]

    during(tmp_path, body, tools=(much,))
