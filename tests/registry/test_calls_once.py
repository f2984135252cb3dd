"""Calls with an Idempotency-IdempotencyKey: made once, answered as often as is asked."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.contract.showing import SECRET
from tests.registry.opened import Opened, during

from jaato.errors import StoreError
from jaato.protocol.events import ToolCallStart
from jaato.server.registry import idempotency as repeats
from jaato.server.registry.idempotency import IdempotencyKey, IdempotencyStore, KeyInUse, RecordedCall
from jaato.testing.arp.peer import fails, result_of
from jaato.tools.tool import tool

MISMATCH, UNDER_WAY = "request.idempotency_mismatch", "request.idempotency_under_way"
REPLAYED = "idempotent-replayed"


class Counted:
    """Tools that note when they run."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.begun, self.go = threading.Event(), threading.Event()

    @tool(access="execute")
    def count(self, by: int = 1) -> dict[str, int]:
        """Count."""
        self.ran.append("count")
        return {"count": len(self.ran) * by}

    @tool(access="execute")
    def fail(self) -> str:
        """Fail."""
        self.ran.append("fail")
        raise RuntimeError(SECRET)

    @tool(access="execute")
    async def wait(self) -> str:
        """Wait to be let go."""
        self.ran.append("wait")
        self.begun.set()
        while not self.go.is_set():
            await anyio.sleep(0.002)
        return "done"

    @tool(access="read")
    def long(self, size: int) -> str:
        """Give a long text that looks like data."""
        self.ran.append("long")
        return "[" + "1," * size + "1]"

    @tool(access="read", timeout_s=0.01)
    async def late(self) -> None:
        """Take too long."""
        self.ran.append("late")
        await anyio.sleep_forever()

    def blueprint(self) -> dict[str, Any]:
        """What a registry is to serve."""
        tools = (self.count, self.fail, self.wait, self.long, self.late)
        return {"tools": tools, "allow": ("count", "fail", "wait")}


def origins_of(one: Opened) -> list[object]:
    """Where the calls in the log come from."""
    caller = one.registry.callers.get("")
    assert caller is not None
    events = caller.session.journal.store.read(caller.session.state.session_id)
    return [event.origin for event in events if isinstance(event, ToolCallStart)]


def test_a_call_with_a_key_is_made_once_also_after_a_restart(tmp_path: Path) -> None:
    """The same key and the same request have the same answer, byte for byte, from this server and from the next; what only
    differs in spaces is the same, and everything else is another request: 422. A key that no call was begun with is free."""
    counted = Counted()
    asked: list[tuple[str, bytes, str]] = [
        ("count", b'{"args": {"by": 2}, "context": {"a": 1, "b": 2}}', "k-1"),
        ("fail", b'{"args": {}}', '"k 2"'),
        ("long", b'{"args": {"size": 30000}}', "k-3"),
    ]
    answers: dict[str, tuple[int, bytes]] = {}

    def first(one: Opened) -> None:
        for name, body, key in asked:
            reply = one.at.invoke(name, body, idempotency_key=key, x_request_id="first")
            assert REPLAYED not in reply.headers
            answers[key] = reply.status, reply.body
        assert [status for status, _ in answers.values()] == [200, 500, 200]
        again(one)
        for bad in (
            b'{"args": {"by": 3}}',
            b'{"args": {"by": 2}}',
            b'{"args": {"by": 2}, "context": {"a": 1}}',
        ):
            fails(one.at.invoke("count", bad, idempotency_key="k-1"), 422, MISMATCH)
        fails(one.at.invoke("echo", {"args": {"text": "x"}}, idempotency_key="k-1"), 422, MISMATCH)
        assert one.at.invoke("count", {"args": {"by": "x"}}, idempotency_key="free").status == 400
        assert one.at.invoke("nothing", {"args": {}}, idempotency_key="free").status == 404
        assert result_of(one.at.invoke("echo", {"args": {"text": "x"}}, idempotency_key="free"), 200)
        fails(one.at.invoke("count", {"args": {}}, idempotency_key=""), 400, "request.invalid_shape")
        assert origins_of(one)[0] == {"request_id": "first", "idempotency_key": "k-1"}

    def again(one: Opened) -> None:
        for name, body, key in asked:
            other = json.dumps(dict(reversed(json.loads(body).items())), indent=1).encode()
            for same in (body, other):
                reply = one.at.invoke(name, same, idempotency_key=key)
                assert (reply.status, reply.body) == answers[key]
                assert reply.headers[REPLAYED] == "true"
        streamed = one.at.invoke("fail", asked[1][1], idempotency_key='"k 2"', accept="application/x-ndjson")
        assert streamed.headers[REPLAYED] == "true"
        assert json.loads(streamed.body) == {"type": "result", "result": json.loads(answers['"k 2"'][1])}
        assert counted.ran == ["count", "fail", "long"]

    def second(one: Opened) -> None:
        again(one)
        assert SECRET.encode() not in answers['"k 2"'][1]
        fails(one.at.invoke("count", {"args": {}}, idempotency_key="k-1"), 422, MISMATCH)
        callers = one.registry.callers
        before = callers.idempotency.find(IdempotencyKey(callers.idempotency.scope(""), "k-1"))
        assert before is not None
        callers.store.delete(before.session_id)  # as what is too old is
        fails(one.at.invoke("count", asked[0][1], idempotency_key="k-1"), 500, "tool.outcome_unknown")
        assert counted.ran == ["count", "fail", "long"]

    during(tmp_path, first, **counted.blueprint())
    during(tmp_path, second, **counted.blueprint())


def test_a_call_with_a_key_outlives_its_client(tmp_path: Path) -> None:
    """Whoever asks while the call is under way gets 409; it goes on when its client has gone, and who comes back has its
    answer. What only reads and was cut off may be done again."""
    counted = Counted()
    data = b'{"args": {}}'

    def body(one: Opened) -> None:
        with closing(one.at.line()) as line:
            line.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: gone at once
            lines = ("idempotency-key: k", f"content-length: {len(data)}")
            line.sendall(one.at.head("POST", "/v1/tools/wait:invoke", *lines) + data)
            assert counted.begun.wait(60)
            under_way = one.at.invoke("wait", data, idempotency_key="k")
            assert fails(under_way, 409, UNDER_WAY)["retryable"] is True
            assert under_way.headers["retry-after"] == "1"
            fails(one.at.invoke("count", data, idempotency_key="k"), 422, MISMATCH)
        assert fails(one.at.invoke("wait", data, idempotency_key="k"), 409, UNDER_WAY)
        counted.go.set()
        reply = one.at.invoke("wait", data, idempotency_key="k")
        while reply.status == 409:
            reply = one.at.invoke("wait", data, idempotency_key="k")
        assert (result_of(reply, 200)["result"], reply.headers[REPLAYED]) == ("done", "true")
        for _ in range(2):
            late = one.at.invoke("late", data, idempotency_key="l")
            assert fails(late, 504, "tool.timeout")["retryable"] is True
            assert REPLAYED not in late.headers
        assert counted.ran == ["wait", "late", "late"]

    during(tmp_path, body, **counted.blueprint())


def test_several_calls_with_a_key_are_made_once(tmp_path: Path) -> None:
    """A key of `batchInvoke` is that of the whole request: it is answered as it was, and is no key for another."""
    counted = Counted()
    calls = [
        {"name": "count", "args": {}},
        {"name": "count", "args": {"by": "x"}},
        {"name": "fail", "args": {}},
    ]

    def body(one: Opened) -> None:
        def send(calls: object, key: str) -> object:
            reply = one.at.send("POST", "/v1/tools:batchInvoke", {"calls": calls}, idempotency_key=key)
            return reply.json if reply.status == 200 else (reply.status, reply.json["error"]["code"])

        first = send(calls, "k")
        assert isinstance(first, list)
        assert [one["ok"] for one in first] == [True, False, False]
        again = send(calls, "k")
        assert isinstance(again, list)
        assert (again[0], again[2]) == (first[0], first[2])
        assert again[1]["error"] == first[1]["error"]
        assert send(calls[:2], "k") == (422, MISMATCH)
        fails(one.at.invoke("count", {"args": {}}, idempotency_key="k"), 422, MISMATCH)
        whole = [calls[0]]
        reply = one.at.send("POST", "/v1/tools:batchInvoke", {"calls": whole}, idempotency_key="w")
        assert REPLAYED not in reply.headers
        reply = one.at.send("POST", "/v1/tools:batchInvoke", {"calls": whole}, idempotency_key="w")
        assert reply.headers[REPLAYED] == "true"
        beyond = b'{"calls": [{"name": "count", "args": {"by": 1e999}}, {"name": "fail", "args": {}}]}'
        for _ in range(2):  # what one of them cannot be made of is its own affair, with a key too
            reply = one.at.send("POST", "/v1/tools:batchInvoke", beyond, idempotency_key="b")
            assert [one["error"]["code"] for one in reply.json] == [
                "request.invalid_shape",
                "tool.handler_error",
            ]
        other = beyond.replace(b"1e999", b"1e998")
        reply = one.at.send("POST", "/v1/tools:batchInvoke", other, idempotency_key="b")
        assert reply.json["error"]["code"] == MISMATCH
        assert sorted(counted.ran) == ["count", "count", "fail", "fail"]

    during(tmp_path, body, **counted.blueprint())


def test_keys_are_remembered_for_a_day_and_the_newest_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys go after a day, and the oldest of a caller beyond a bound; callers and workspaces have their own."""
    monkeypatch.setattr(repeats, "KEPT_KEYS", 3)
    monkeypatch.setattr(repeats, "PRUNED_EVERY", 1)
    known = IdempotencyStore(tmp_path / "state", tmp_path)
    mine, other = known.scope("token a"), known.scope("token b")
    assert len({mine, other, IdempotencyStore(tmp_path, tmp_path / "w").scope("token a")}) == 3
    made = [RecordedCall("d", "s", f"c-{number}", number, "r") for number in range(8)]
    known.claim(IdempotencyKey(other, "0"), made[7], None)
    for number in range(6):
        known.claim(IdempotencyKey(mine, str(number)), made[number], None)
    found = [known.find(IdempotencyKey(mine, str(number))) is not None for number in range(6)]
    assert found == [False, False, True, True, True, True]
    assert known.find(IdempotencyKey(other, "0")) == made[7]
    with pytest.raises(KeyInUse):
        known.claim(IdempotencyKey(mine, "5"), made[6], None)
    known.claim(IdempotencyKey(mine, "5"), made[6], made[5])
    assert known.find(IdempotencyKey(mine, "5")) == made[6]
    monkeypatch.setattr(repeats, "KEPT_S", 0.0)
    assert known.find(IdempotencyKey(mine, "5")) is None
    assert known.digest(IdempotencyKey(mine, "5")) is None
    known.close()
    (tmp_path / "state" / repeats.NAME).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="damaged"):
        known.find(IdempotencyKey(mine, "5"))
