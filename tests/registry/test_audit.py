"""The audit log: each call by who made it and by every id it is known by, also where it was refused."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec
import psutil
import pytest
from tests.registry.opened import Opened, during
from tests.registry.registering import Registry, put_body
from tests.registry.registering import during as registering

from jaato.cli.commands.registry_server import print_calls
from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.server.auth.gate import allow_hosts
from jaato.server.auth.tokens import SingleToken
from jaato.server.registry import caller_sessions
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.audit import Audit, AuditEntry, AuditFilter, audit_sessions
from jaato.server.registry.keys import Keys, RequireKey, add_key, default_rate
from jaato.storage.sqlite import SqliteStore
from jaato.testing.arp.peer import Served, fails
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import tool

TRACE = "0af7651916cd43dd8448eb211c80319c"
OWNER = "o" * 43
DEFAULT_SEARCH_LIMIT = [
    (AuditFilter(request="r-3"), ["r-3"]),
    (AuditFilter(trace=TRACE), ["r-1"]),
    (AuditFilter(flow="f-1"), ["r-1", "r-2"]),
    (AuditFilter(tool="calc"), ["r-4"]),
    (AuditFilter(key="ci"), ["r-1", "r-2"]),
    (AuditFilter(key="owner", failed=True), ["r-3", "r-4"]),
    (AuditFilter(since="2999"), []),
    (AuditFilter(flow="f-1", tool="calc"), []),
]
"""What is asked for, and the requests that are found."""


def test_calls_are_found_by_every_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls of all callers are one list by time; denied and invalid ones are in it with their ids, and it can be followed."""
    state = tmp_path / "state"
    key = add_key(state, "ci", ["tools:invoke"])

    async def main() -> None:
        described = SessionOptions(
            workspace=tmp_path, state_dir=state, environ={"HOME": str(tmp_path)}, deny=("time_now",)
        )
        registry = open_registry(described)
        listener = bind_listener("127.0.0.1", 0)
        port = listener.getsockname()[1]
        guard = RequireKey(allow_hosts("127.0.0.1", port), SingleToken(OWNER), Keys(state))
        try:
            async with serving(registry, guard, listener):
                await anyio.to_thread.run_sync(calls, Served(f"http://127.0.0.1:{port}"))
        finally:
            await registry.callers.close()

    def calls(at: Served) -> None:
        mine, owner = replace(at, token=key), replace(at, token=OWNER)
        given = {"args": {"text": "a"}, "trace": {"flow_id": "f-1", "step_id": "s-1"}}
        parent = f"00-{TRACE}-b7ad6b7169203331-01"
        assert mine.invoke("echo", given, x_request_id="r-1", traceparent=parent).status == 200
        assert mine.invoke("echo", {**given, "args": {}}, x_request_id="r-2").status == 400
        assert owner.invoke("time_now", {"args": {"tz": "UTC"}}, x_request_id="r-3").status == 403
        assert owner.invoke("calc", {"args": {"expression": "1/0"}}, x_request_id="r-4").status == 500
        with closing(SqliteStore(state / "jaato.db")) as store:
            audit = Audit(store, AuditFilter())
            seen = audit.newest(100)
            assert [(one.request_id, one.who, one.tool, one.outcome) for one in seen] == [
                ("r-1", "key ci", "echo", "ok"),
                ("r-2", "key ci", "echo", "tool.invalid_args"),
                ("r-3", "owner", "time_now", "permission.denied"),
                ("r-4", "owner", "calc", "tool.execution_error"),
            ]
            assert (seen[0].trace_id, seen[0].flow_id, seen[0].step_id) == (TRACE, "f-1", "s-1")
            assert seen[1].flow_id == "f-1"
            assert (seen[2].permission or "").startswith("denied: ")
            for wanted, found in DEFAULT_SEARCH_LIMIT:
                assert [one.request_id for one in Audit(store, wanted).newest(100)] == found
            assert [one.request_id for one in Audit(store, AuditFilter()).newest(2)] == ["r-3", "r-4"]

            late = Audit(store, AuditFilter(tool="echo"))
            assert late.newest(1)[0].request_id == "r-2"
            late.skip()
            assert mine.invoke("echo", {"args": {"text": "b"}}, x_request_id="r-5").status == 200
            for follows in (audit, late):
                came: list[AuditEntry] = []
                while not came:  # what only reads is answered a moment before it is in the log
                    came = follows.more()
                assert [one.request_id for one in came] == ["r-5"]
                assert follows.more() == []

    anyio.run(main)


def test_what_is_secret_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The ids and messages of a call are masked, and cannot move the cursor of a terminal."""
    entry = AuditEntry(
        time="2030-01-02T03:04:05.000Z",
        who="key ci",
        tool="echo",
        outcome="tool.execution_error",
        ms=1.25,
        message="hunter2hunter2 \x1b[2J",
        flow_id="hunter2hunter2",
        request_id="r-1",
    )
    secrets = Redactor({"PASSWORD": "hunter2hunter2"})
    print_calls([entry], secrets, as_json=False)
    shown = capsys.readouterr().out
    assert not any(one in shown for one in ("hunter2", "\x1b"))
    assert shown.startswith("2030-01-02 03:04:05  key ci  echo  tool.execution_error  1.2 ms  r-1  flow ")
    print_calls([entry, entry], secrets, as_json=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "hunter2" not in lines[0]
    assert msgspec.json.decode(lines[0])["request_id"] == "r-1"


def test_a_log_that_has_grown_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many calls a caller goes on in another session; what is under way ends where it began, and can be cancelled."""
    monkeypatch.setattr(caller_sessions, "MAX_CALLS", 5)
    waiting = threading.Event()

    @tool(access="read")
    async def wait() -> None:
        """Wait without end."""
        waiting.set()
        await anyio.sleep_forever()

    def body(one: Opened) -> None:
        made: list[int] = []
        at = one.at
        first: dict[str, object] = {"args": {}}
        slow = threading.Thread(
            target=lambda: made.append(at.invoke("wait", first, x_request_id="slow").status)
        )
        slow.start()
        assert waiting.wait(60)
        for number in range(40):
            assert at.invoke("echo", {"args": {"text": "x"}}, x_request_id=f"n-{number}").status == 200
        with closing(SqliteStore(tmp_path / "state" / "jaato.db")) as store:
            sessions = list(audit_sessions(store))
            assert len(sessions) > 1
            while len(Audit(store, AuditFilter(tool="echo")).newest(100)) < 40:
                pass
            assert [call.outcome for call in Audit(store, AuditFilter(request="slow")).newest(9)] == [
                "unfinished"
            ]
        assert at.send("POST", "/v1/tools:cancel", {"request_id": "slow"}).json["cancelled"] == 1
        slow.join(60)
        assert made == [503]

    during(tmp_path, body, tools=(wait,))


def test_old_calls_are_removed(tmp_path: Path) -> None:
    """What is beyond days or size goes, the oldest first; what is at work stays. How a call ended is not known any more then."""
    state = tmp_path / "state"

    @tool(access="write")
    def change() -> None:
        """Change something."""

    def body(one: Opened) -> None:
        callers = one.registry.callers
        store = callers.store

        def sessions() -> list[str]:
            return [row.id for row in audit_sessions(store)]

        async def more() -> None:
            for name in ("a", "b", "c", "d"):
                await callers.caller(name, name)
            for name in ("a", "b", "c"):
                await callers.leave(name)

        anyio.from_thread.run(more)
        assert len(sessions()) == 4
        with closing(SqliteStore(state / "jaato.db")) as other:
            sizes = [other.size_bytes(one) for one in sessions()]
            assert min(sizes) > 100
            assert other.size_bytes("s_nothing") == 0
        known: dict[str, int] = {}
        assert caller_sessions.remove_old(store, caller_sessions.LogRetention(), known, lambda: True) == 0
        assert (
            caller_sessions.remove_old(store, caller_sessions.LogRetention(1.0, 1e9), known, lambda: True)
            == 0
        )
        assert (
            caller_sessions.remove_old(store, caller_sessions.LogRetention(None, 1.0), known, lambda: False)
            == 0
        )
        assert (
            caller_sessions.remove_old(
                store, caller_sessions.LogRetention(None, sum(sizes) - 1), known, lambda: True
            )
            == 1
        )
        assert len(sessions()) == 3
        assert caller_sessions.remove_old(store, caller_sessions.LogRetention(-1.0), known, lambda: True) == 2
        assert [row.name for row in audit_sessions(store)] == ["registry: d"]
        callers.retention = caller_sessions.LogRetention(-1.0)
        anyio.from_thread.run(callers.leave, "d")
        anyio.from_thread.run(callers.remove_old)
        assert sessions() == []
        once = {"idempotency_key": "k"}
        assert one.at.invoke("change", {"args": {}}, **once).status == 200
        anyio.from_thread.run(callers.leave, "")
        anyio.from_thread.run(callers.remove_old)
        fails(one.at.invoke("change", {"args": {}}, **once), 500, "tool.outcome_unknown")

    during(tmp_path, body, tools=(change,), yes=True)


@pytest.mark.parametrize("setting", ["LOG_DAYS=-1", "LOG_MB=nan", "RATE=often"])
def test_bounds_that_are_none(tmp_path: Path, setting: str) -> None:
    """A bound of the log, or a rate, that is none is refused at the start."""
    name, _, value = setting.partition("=")
    environ = {"HOME": str(tmp_path), f"JAATO_TOOL_REGISTRY_{name}": value}
    blueprint = SessionOptions(workspace=tmp_path, state_dir=tmp_path / "state", environ=environ)

    def start() -> None:
        default_rate(settings_for(blueprint, tmp_path))
        open_registry(blueprint)

    with pytest.raises(ConfigError, match=r"number from zero up|no rate|is no number"):
        start()
    assert not (tmp_path / "state" / "jaato.db").exists(), "nothing is opened before the settings are read"


def test_a_registry_that_cannot_be_opened_leaves_no_store_open(tmp_path: Path) -> None:
    """A setting that is read after the store was opened is refused, and the store is closed."""
    environ = {"HOME": str(tmp_path), "JAATO_ALLOW_HOSTS": "::bad::/x"}
    with pytest.raises(ConfigError, match="is no host"):
        open_registry(SessionOptions(workspace=tmp_path, state_dir=tmp_path / "state", environ=environ))
    assert (tmp_path / "state" / "jaato.db").exists()
    assert not [file.path for file in psutil.Process().open_files() if file.path.startswith(str(tmp_path))]


def test_who_put_and_took_away_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each PUT and DELETE is in the log by who sent it, its request and trace, with the version, who carries out the calls, and
    why it was refused; what is secret in it is not. What cannot be noted is not done."""
    state = tmp_path / "state"
    key = add_key(state, "ci", ["tools:write"])
    hook = {
        "type": "webhook",
        "url": "http://127.0.0.1:9/hook?key=hush-hush",
        "secret": "hush-hush-hush-hush",
    }
    parent = f"00-{TRACE}-b7ad6b7169203331-01"

    def body(one: Registry) -> None:
        mine = replace(one, at=replace(one.at, token=key))
        assert mine.put("say", put_body(hook), x_request_id="p-1", traceparent=parent).status == 201
        assert mine.put("say", put_body(hook, "2.0.0"), x_request_id="p-2").status == 201
        assert mine.put("say", put_body(hook), x_request_id="p-3", if_none_match="*").status == 412
        assert one.put("echo", put_body(hook), x_request_id="p-4").status == 409
        assert one.delete("say", x_request_id="p-5").status == 204
        assert one.delete("say", x_request_id="p-6").status == 404
        with closing(SqliteStore(state / "jaato.db")) as store:
            audit = Audit(store, AuditFilter())
            found = audit.newest(100)
            assert [call.request_id for call in Audit(store, AuditFilter(trace=TRACE)).newest(9)] == ["p-1"]
            assert len(Audit(store, AuditFilter(tool="say", key="ci")).newest(9)) == 3
            print_calls(found, Redactor(), as_json=False)
            print_calls(found, Redactor(), as_json=True)
        handler = "webhook http://127.0.0.1:9"
        assert [(e.request_id, e.who, e.action, e.tool, e.version, e.handler, e.outcome) for e in found] == [
            ("p-1", "key ci", "put", "say", "1.0.0", handler, "ok"),
            ("p-2", "key ci", "put", "say", "2.0.0", handler, "ok"),
            ("p-3", "key ci", "put", "say", "1.0.0", handler, "request.precondition_failed"),
            ("p-4", "owner", "put", "echo", "1.0.0", handler, "tool.fixed"),
            ("p-5", "owner", "delete", "say", "1.0.0, 2.0.0", None, "ok"),
            ("p-6", "owner", "delete", "say", None, None, "tool.not_found"),
        ]
        caller = one.registry.callers.get("token owner")
        assert caller is not None
        connection = caller.session.journal.store._guard._connection  # type: ignore[attr-defined]
        connection.execute("PRAGMA query_only = 1")
        refused = one.put("late", put_body(hook))
        assert (refused.status, refused.json["error"]["code"]) == (507, "registry.not_kept")
        assert one.get("late").status == 404
        connection.execute("PRAGMA query_only = 0")
        assert one.put("late", put_body(hook)).status == 201

    registering(tmp_path, body)
    said = capsys.readouterr().out
    assert "put say 2.0.0" in said
    assert "hush" not in said
