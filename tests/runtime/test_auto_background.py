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
    ok, result = executor.execute("wait", {"s": 0.3})
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
    assert plugin.background_tasks.get(result["task_id"]).done.wait(5)  # type: ignore[union-attr]
    assert plugin.get_result(result["task_id"]).result == {"waited": 0.3}
    assert plugin.runs == 1


@pytest.mark.spec("S1", "How It Works")
def test_a_call_within_the_threshold_returns_its_result(tmp_path: Path) -> None:
    """Nothing is moved to the background that ends in time."""
    executor, _ = slow_executor(tmp_path)
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
    ok, result = executor.execute("wait", {"s": 0.5})
    assert ok
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    failing = plugin.start_background("wait", {"s": -1})
    found = plugin.background_tasks.get(failing.task_id)
    assert found is not None
    assert found.done.wait(5)
    assert plugin.get_result(failing.task_id).status is TaskStatus.FAILED
    assert "ValueError" in (plugin.get_result(failing.task_id).error or "")
    assert task.done.wait(5)


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
    assert "No background-capable plugin offers 'wait'" in result["error"]
    ok, result = executor.execute("start_background", {"tool": "wait", "args": {"s": 0}})
    assert ok, result
    assert (result["tool"], result["status"]) == ("wait", "running")
    task = plugin.background_tasks.get(result["task_id"])
    assert task is not None
    assert task.done.wait(5)
    assert plugin.runs == 1
