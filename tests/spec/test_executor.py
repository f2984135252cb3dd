"""`ToolExecutor` with permissions, ledger and call ids: what its page says beyond the basics."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spec.documented import Documented

from jaato.plugins.permission import PermissionPlugin
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.call import CURRENT
from jaato.tools.ledger import TokenLedger
from jaato.tools.task_records import BackgroundCapableMixin


def permission(tmp_path: Path, policy: str = "{}") -> PermissionPlugin:
    """A plugin with a policy file and a queue nobody serves unless the test does."""
    path = tmp_path / "permissions.json"
    path.write_text(policy)
    return PermissionPlugin(path, "queue", workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)


DENYING = '{"version": 1, "defaultPolicy": "allow", "blacklist": {"tools": ["dangerous_tool"]}}'


@pytest.mark.spec("S1", "Constructor", "S1.constructor.1")
@pytest.mark.spec("S1", "execute()", "S1.execute.1")
def test_the_signatures_are_the_documented_ones() -> None:
    """Parameters and defaults of the constructor and of execute."""
    made = inspect.signature(ToolExecutor).parameters
    assert {name: p.default for name, p in made.items()} == {
        "ledger": None,
        "auto_background_enabled": True,
        "auto_background_pool_size": 4,
    }
    execute = inspect.signature(ToolExecutor.execute).parameters
    assert list(execute)[1:] == ["name", "args", "tool_output_callback", "call_id"]
    assert execute["tool_output_callback"].default is execute["call_id"].default is None


@pytest.mark.spec("S1", "execute()", "S1.execute.2")
def test_the_call_id_reaches_the_tool() -> None:
    """The id given is the call's; calls without one have different ids."""
    seen: list[str] = []

    def look(_args: dict[str, Any]) -> str:
        call = CURRENT.get()
        assert call is not None
        seen.append(call.id)
        return "ok"

    executor = ToolExecutor()
    executor.register("look", look)
    executor.execute("look", {}, call_id="call_12345")
    for _ in range(2):
        executor.execute("look", {})
    assert seen[0] == "call_12345"
    assert len(set(seen)) == 3


@pytest.mark.spec("S1", "Permission Integration", "S1.permission.1")
@pytest.mark.spec("S1", "Error handling", "S1.errors.2")
@pytest.mark.spec("S1", "Result Structure", "S1.result.3")
@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.2")
def test_with_a_permission_plugin_every_call_is_judged(tmp_path: Path) -> None:
    """A denied tool does not run and says how it was denied; an allowed one carries the record of it."""
    ran: list[str] = []
    executor = ToolExecutor()
    executor.register("dangerous_tool", lambda _args: ran.append("dangerous"))
    executor.register("writeFile", lambda _args: {"written": True})
    executor.set_permission_plugin(permission(tmp_path, DENYING), context={"session_id": "abc123"})
    ok, result = executor.execute("dangerous_tool", {"cmd": "rm -rf /"})
    assert not ok
    assert ran == []
    assert "Permission denied" in result["error"]
    assert result["_permission"]["decision"] == "denied"
    assert result["_permission"]["method"] == "blacklist"
    ok, result = executor.execute("writeFile", {"path": "output.txt"})
    assert ok
    assert result["written"] is True
    assert result["_permission"]["decision"] == "allowed"


@pytest.mark.spec("S1", "Permission Integration", "S1.permission.3")
def test_the_record_has_decision_reason_and_method(tmp_path: Path) -> None:
    """Exactly these three keys, each a text; the tool's own dict is left as it was."""
    own = {"a": 1}
    executor = ToolExecutor()
    executor.register("t", lambda _args: own)
    executor.set_permission_plugin(permission(tmp_path, DENYING))
    _, result = executor.execute("t", {})
    assert set(result["_permission"]) == {"decision", "reason", "method"}
    assert all(isinstance(value, str) and value for value in result["_permission"].values())
    assert own == {"a": 1}


@pytest.mark.spec("S1", "Permission Integration", "S1.permission.2")
def test_without_a_permission_plugin_nobody_is_asked(tmp_path: Path) -> None:
    """None disables the checks, and no record is added."""
    executor = ToolExecutor()
    executor.register("dangerous_tool", lambda _args: {"ran": True})
    executor.set_permission_plugin(permission(tmp_path, DENYING))
    executor.set_permission_plugin(None)
    assert executor.execute("dangerous_tool", {}) == (True, {"ran": True})


def test_what_is_no_permission_plugin_changes_nothing(tmp_path: Path) -> None:
    """It is refused by its type, and the plugin before still decides."""
    executor = ToolExecutor()
    executor.register("dangerous_tool", lambda _args: {"ran": True})
    executor.set_permission_plugin(permission(tmp_path, DENYING), {"session_id": "before"})
    for wrong in (object(), PermissionPlugin, {"policy": "allow"}):
        with pytest.raises(TypeError, match="no permission plugin"):
            executor.set_permission_plugin(wrong, {"session_id": "after"})
    assert executor.execute("dangerous_tool", {})[0] is False


@pytest.mark.spec("S1", "Permission Integration", "S1.permission.4")
def test_the_context_goes_with_the_call(tmp_path: Path) -> None:
    """The tool sees the session_id of the context."""
    seen: list[str] = []

    def look(_args: dict[str, Any]) -> None:
        call = CURRENT.get()
        assert call is not None
        seen.append(call.session_id)

    executor = ToolExecutor()
    executor.register("look", look)
    executor.set_permission_plugin(permission(tmp_path, DENYING), {"session_id": "abc123"})
    executor.execute("look", {})
    assert seen == ["abc123"]


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.3")
def test_an_unknown_name_is_refused_before_anyone_is_asked(tmp_path: Path) -> None:
    """No question is put for a tool nobody registered."""
    plugin = permission(tmp_path)
    executor = ToolExecutor()
    executor.set_permission_plugin(plugin)
    ok, result = executor.execute("nothing", {})
    assert not ok
    assert result["error"] == "No executor registered for nothing"
    assert "_permission" not in result
    assert plugin.channel.next(0) is None  # type: ignore[attr-defined]  # a queue channel


@pytest.mark.spec("S1", "Configuration Methods", "S1.configuration.1")
@pytest.mark.spec("S1", "Constructor", "S1.constructor.2")
@pytest.mark.parametrize("way", ["constructor", "setter"])
def test_the_ledger_has_permission_checks(tmp_path: Path, way: str) -> None:
    """Each check is an entry with tool, decision and method, whichever way the ledger came."""
    ledger = TokenLedger()
    executor = ToolExecutor(ledger=ledger) if way == "constructor" else ToolExecutor()
    executor.set_ledger(ledger)
    executor.register("dangerous_tool", lambda _args: 1)
    executor.set_permission_plugin(permission(tmp_path, DENYING))
    executor.execute("dangerous_tool", {})
    checks = [entry for entry in ledger.entries if entry["stage"] == "permission-check"]
    assert [(c["tool"], c["decision"], c["method"]) for c in checks] == [
        ("dangerous_tool", "denied", "blacklist")
    ]


def answering(plugin: PermissionPlugin, answer: Callable[[Any], None], count: int = 1) -> threading.Thread:
    """A thread that serves the queue."""

    def serve() -> None:
        for _ in range(count):
            answer(plugin.channel.next(10))  # type: ignore[attr-defined]  # a queue channel

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.spec("C2", "ToolExecutor", "C2.executor.2")
def test_edited_arguments_are_validated_again(tmp_path: Path) -> None:
    """What the user writes into the arguments must fit the schema; then the tool runs with it, once."""
    plugin = permission(tmp_path)
    registry = PluginRegistry(workspace=tmp_path)
    ran: list[Any] = []
    mine = Documented("mine", "shout")
    mine.executors = {"shout": ran.append}
    registry.register_plugin(mine, expose=True)
    executor = ToolExecutor()
    executor.set_registry(registry)
    executor.set_permission_plugin(plugin)
    thread = answering(plugin, lambda pending: pending.answer("e", arguments={"text": 5}))
    ok, result = executor.execute("shout", {"text": "hi"})
    thread.join(60)
    assert not ok
    assert result["issues"][0]["path"] == "/text"
    assert ran == []
    thread = answering(plugin, lambda pending: pending.answer("e", arguments={"text": "edited"}))
    ok, _ = executor.execute("shout", {"text": "hi"})
    thread.join(60)
    assert ok
    assert ran == [{"text": "edited"}]


@pytest.mark.spec("S0", "Parallel Tool Execution", "S0.parallel.4")
@pytest.mark.spec("C4", "Permissions", "C4.permissions.2")
def test_parallel_calls_ask_one_at_a_time_and_one_answer_may_settle_all(tmp_path: Path) -> None:
    """With five calls waiting one question is open; `all` settles the five, and nothing that comes later."""
    plugin = permission(tmp_path)
    executor = ToolExecutor()
    executor.register("t", lambda args: args["n"])
    executor.set_permission_plugin(plugin)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(executor.execute("t", {"n": n}))) for n in range(5)
    ]
    for thread in threads:
        thread.start()
    pending = plugin.channel.next(10)  # type: ignore[attr-defined]  # a queue channel
    while len(plugin.gate._waiting) < 5:
        threading.Event().wait(0.001)
    assert plugin.channel.next(0) is None  # type: ignore[attr-defined]
    pending.answer("all")
    for thread in threads:
        thread.join(60)
    assert sorted(value["result"] for ok, value in results if ok) == [0, 1, 2, 3, 4]
    assert {value["_permission"]["decision"] for _, value in results} == {"allowed"}
    later = answering(plugin, lambda asked: asked.answer("n"))
    ok, _ = executor.execute("t", {"n": 6})
    later.join(60)
    assert not ok


@pytest.mark.spec("C4", "Permissions", "C4.permissions.3")
def test_nobody_to_ask_means_denied_with_the_reason(tmp_path: Path) -> None:
    """A closed channel: the call does not run, and the record says why."""
    plugin = permission(tmp_path)
    plugin.channel.close()  # type: ignore[attr-defined]  # a queue channel
    executor = ToolExecutor()
    executor.register("t", lambda _args: 1)
    executor.set_permission_plugin(plugin)
    ok, result = executor.execute("t", {})
    assert not ok
    assert result["_permission"]["method"] == "no_channel"
    assert result["_permission"]["reason"]


@pytest.mark.spec("S1", "Constructor", "S1.constructor.4")
def test_no_more_calls_than_the_pool_has_places_run_in_the_background(tmp_path: Path) -> None:
    """With a pool of two, five calls that wait for a signal are promised; two of them have begun."""
    begun, go = threading.Semaphore(0), threading.Event()
    started: list[int] = []

    class Slow(BackgroundCapableMixin, Documented):
        """One whose calls go to the background at once."""

        auto_background_s = {"wait": 0.02}

    def wait(args: dict[str, Any]) -> str:
        started.append(int(args["text"]))
        begun.release()
        go.wait(60)
        return "ok"

    plugin = Slow("slow", "wait")
    plugin.executors = {"wait": wait}
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor(auto_background_pool_size=2)
    executor.set_registry(registry)
    ids = [executor.execute("wait", {"text": str(n)})[1]["task_id"] for n in range(5)]
    assert begun.acquire(timeout=60)
    assert begun.acquire(timeout=60)
    assert sorted(started) == [0, 1]
    go.set()
    for task_id in ids:
        task = plugin.background_tasks.get(task_id)
        assert task is not None
        assert task.done.wait(60)
    assert sorted(started) == [0, 1, 2, 3, 4]
