"""`ToolExecutor` moves slow calls to the background."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.slow import SlowPlugin, slow_executor

from jaato.abc.plugin import TaskStatus
from jaato.plugins.permission import PermissionPlugin
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry


@pytest.mark.spec("S1", "Auto-Background")
@pytest.mark.spec("S3", "Background Task Flow")
def test_a_slow_call_goes_on_in_the_background_and_runs_once(tmp_path: Path) -> None:
    """Past its threshold a call returns the documented promise; its plugin has the result later; it ran once."""
    executor, plugin = slow_executor(tmp_path)
    ok, result = executor.execute("wait", {"s": 60})
    assert ok
    assert result["auto_backgrounded"] is True
    assert result["plugin_name"] == "slow"
    assert result["tool_name"] == "wait"
    assert result["threshold_seconds"] == 0.05
    assert result["message"] == (
        "Task exceeded 0.05s threshold, continuing in background. "
        f"Use task_id '{result['task_id']}' to check status and output."
    )
    assert plugin.get_status(result["task_id"]) is TaskStatus.RUNNING
    plugin.go.set()
    assert plugin.background_tasks.get(result["task_id"]).done.wait(60)  # type: ignore[union-attr]
    assert plugin.get_result(result["task_id"]).result == {"waited": 60}
    assert plugin.runs == 1


@pytest.mark.spec("S1", "How It Works")
def test_a_call_within_the_threshold_returns_its_result(tmp_path: Path) -> None:
    """Nothing is moved to the background that ends in time."""
    executor, _ = slow_executor(tmp_path, threshold_s=60)
    assert executor.execute("wait", {"s": 0}) == (True, {"waited": 0})


@pytest.mark.spec("S1", "Constructor")
def test_auto_background_can_be_switched_off(tmp_path: Path) -> None:
    """With auto_background_enabled=False the caller waits to the end."""
    executor, _ = slow_executor(tmp_path, auto_background_enabled=False)
    assert executor.execute("wait", {"s": 0.1}) == (True, {"waited": 0.1})


@pytest.mark.spec("S1", "Constructor")
def test_the_pool_bounds_how_many_calls_run_in_the_background(tmp_path: Path) -> None:
    """With a pool of two, two calls run at a time; the others wait for a place and are not lost."""
    executor, plugin = slow_executor(tmp_path, auto_background_pool_size=2)
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()
    all_asked = threading.Event()

    def wait(_args: dict[str, Any]) -> str:
        with lock:
            running.append(1)
            most.append(len(running))
        all_asked.wait(60)
        time.sleep(0.02)
        with lock:
            running.pop()
        return "ok"

    plugin.wait = wait  # type: ignore[method-assign, assignment]  # the plugin's own tool
    executor.set_registry(None)
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(plugin, expose=True)
    executor.set_registry(registry)
    ids = [executor.execute("wait", {})[1]["task_id"] for _ in range(5)]
    all_asked.set()
    for task_id in ids:
        task = plugin.background_tasks.get(task_id)
        assert task is not None
        assert task.done.wait(60)
        assert task.status is TaskStatus.COMPLETED
    assert max(most) == 2


def test_a_background_task_that_fails_says_why(tmp_path: Path) -> None:
    """The task's result carries the error."""
    executor, plugin = slow_executor(tmp_path)
    ok, result = executor.execute("wait", {"s": 60})
    assert ok
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    failing = plugin.start_background("wait", {"s": -1})
    found = plugin.background_tasks.get(failing.task_id)
    assert found is not None
    assert found.done.wait(60)
    assert plugin.get_result(failing.task_id).status is TaskStatus.FAILED
    assert "ValueError" in (plugin.get_result(failing.task_id).error or "")
    plugin.go.set()
    assert task.done.wait(60)


def background_executor(tmp_path: Path, denied: dict[str, Any]) -> tuple[ToolExecutor, SlowPlugin]:
    """An executor whose registry has the background tools too, and whose gate denies these."""
    executor, plugin = slow_executor(tmp_path)
    registry = PluginRegistry(workspace=tmp_path)
    registry.discover()
    registry.expose_tool("background")
    registry.register_plugin(plugin, expose=True)
    executor.set_registry(registry)
    path = tmp_path / "permissions.json"
    path.write_text(json.dumps({"version": 1, "defaultPolicy": "allow", "blacklist": denied}))
    executor.set_permission_plugin(
        PermissionPlugin(path, "queue", workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)
    )
    return executor, plugin


def test_what_is_started_in_the_background_is_judged_as_any_call(tmp_path: Path) -> None:
    """A denied tool does not run through start_background, arguments are validated, and an allowed one runs once."""
    denying, denied = background_executor(tmp_path, {"tools": ["wait"]})
    executor, plugin = background_executor(tmp_path, {})
    ok, result = denying.execute("start_background", {"tool": "wait", "args": {"s": 0}})
    assert not ok
    assert "Permission denied for wait" in result["error"]
    assert result["code"] == "permission_denied"
    assert denied.runs == 0
    ok, result = executor.execute("start_background", {"tool": "wait", "args": {"s": "long"}})
    assert not ok
    assert result["code"] == "arguments_invalid"
    ok, result = executor.execute("start_background", {"tool": "wait", "args": {"s": 0}, "plugin": "other"})
    assert not ok
    assert result["error"] == "wait is of the plugin slow, not of other; leave `plugin` out."
    ok, result = executor.execute("start_background", {"tool": "wait", "args": {"s": 0}})
    assert ok, result
    assert (result["tool"], result["status"]) == ("wait", "running")
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    assert task.done.wait(60)
    assert plugin.runs == 1


@pytest.mark.spec("S1", "Auto-Background", "S1.background.5")
def test_a_function_registered_under_a_capable_plugins_tool_is_moved_too(tmp_path: Path) -> None:
    """`register(name, fn)` with the name of such a tool: the function runs, once, and its plugin has the task."""
    executor, plugin = slow_executor(tmp_path)
    calls: list[float] = []

    def wait(args: dict[str, Any]) -> dict[str, Any]:
        calls.append(args["s"])
        plugin.go.wait(args["s"])
        return {"mine": args["s"]}

    executor.register("wait", wait)
    ok, result = executor.execute("wait", {"s": 60})
    assert (ok, result["auto_backgrounded"]) == (True, True)
    assert (result["plugin_name"], result["tool_name"], result["threshold_seconds"]) == ("slow", "wait", 0.05)
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    plugin.go.set()
    assert task.done.wait(60)
    assert plugin.get_result(result["task_id"]).result == {"mine": 60}
    assert (calls, plugin.runs) == ([60], 0)


@pytest.mark.spec("S1", "Auto-Background", "S1.background.5")
@pytest.mark.spec("S1", "set_registry(registry)", "S1.configuration.2")
@pytest.mark.parametrize("name", ["runCommand", "cli_execute", "run"])
def test_the_promise_has_the_name_the_caller_used(tmp_path: Path, name: str) -> None:
    """Also of a function registered under another name of a slow tool; the check by task id finds either."""
    registry = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin"}})
    registry.expose_tool("cli")
    registry.expose_tool("background")
    found = registry.catalog.find("run")
    assert found is not None
    found.tool.background_after_s = 0.05
    executor = ToolExecutor()
    executor.set_registry(registry)
    try:
        for registered in (False, True):
            go = threading.Event()

            def wait(_args: dict[str, Any], go: threading.Event = go) -> bool:
                return go.wait(60)

            if registered:
                executor.register(name, wait)
            line = f"until test -e {registered}; do sleep 0.05; done"
            ok, result = executor.execute(name, {"command": line})
            assert (ok, result.get("tool_name"), result.get("plugin_name")) == (True, name, "cli")
            task = executor.tasks.get(result["task_id"])
            assert task is not None
            go.set()
            (tmp_path / str(registered)).touch()
            assert task.done.wait(60)
        ok, result = executor.execute("cli_based_tool", {})
        assert not ok
        assert result["error"].startswith("Invalid arguments for cli_based_tool:")
    finally:
        registry.shutdown()


@pytest.mark.spec("S1", "Auto-Background", "S1.background.4")
@pytest.mark.parametrize(
    "arguments",
    [
        {"plugin": "cli", "tool": "cli_based_tool", "args": {"command": "echo hello"}},
        {"tool_name": "runCommand", "arguments": {"cmd": "echo hello"}},
        {"tool": "run", "args": {"command": "echo hello"}},
    ],
)
def test_any_tool_starts_in_the_background_without_a_session(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """`startBackgroundTask` takes both spellings and other names of the tool; its output and result are read later."""
    registry = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin"}})
    registry.expose_tool("cli")
    registry.expose_tool("background")
    executor = ToolExecutor()
    executor.set_registry(registry)
    try:
        ok, started = executor.execute("startBackgroundTask", arguments)
        assert ok, started
        assert (started["tool"], started["status"]) == (
            arguments.get("tool") or arguments["tool_name"],
            "running",
        )
        task = executor.tasks.get(started["task_id"])
        assert task is not None
        assert task.done.wait(60)
        ok, ended = executor.execute("getBackgroundTaskResult", {"task_id": started["task_id"]})
        assert (ok, ended["status"], ended["result"]["output"]) == (True, "completed", "hello\n")
    finally:
        registry.shutdown()


def test_a_task_without_a_session_is_stopped_after_its_time(tmp_path: Path) -> None:
    """`timeout_seconds` ends what was started, by its plugin or in a thread."""
    executor, plugin = background_executor(tmp_path, {})
    ok, started = executor.execute(
        "startBackgroundTask", {"tool_name": "wait", "arguments": {"s": 5}, "timeout_seconds": 0.05}
    )
    assert ok, started
    task = plugin.background_tasks.get(started["task_id"])
    assert task is not None
    assert task.done.wait(60)
    assert task.status is TaskStatus.CANCELLED
    registry = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin"}})
    registry.expose_tool("cli")
    registry.expose_tool("background")
    executor = ToolExecutor()
    executor.set_registry(registry)
    try:
        ok, started = executor.execute(
            "startBackgroundTask",
            {"plugin": "cli", "tool": "run", "args": {"command": "sleep 600"}, "timeout_seconds": 0.1},
        )
        assert ok, started
        task = executor.tasks.get(started["task_id"])
        assert task is not None
        assert task.done.wait(60)
        assert task.status is TaskStatus.CANCELLED
    finally:
        registry.shutdown()
