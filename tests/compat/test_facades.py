"""What the documents say of the client, its hooks and its permission plugin, over a scripted model."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.kit import USAGE, call, say
from tests.processes import alive

from jaato.plugins.permission import QueueChannel
from jaato.protocol.messages import ToolResult
from jaato.providers.scripted import Answer, ScriptedProvider
from shared import JaatoClient, PluginRegistry, TokenLedger, ToolExecutor
from shared.plugins.permission import PermissionPlugin


def client_of(path: Path, script: Sequence[Answer], **tools: Any) -> JaatoClient:
    """A client whose model plays a script, in a directory of its own."""
    client = JaatoClient(state_dir=path / "state")
    (path / "work").mkdir(exist_ok=True)
    client.connect(model="script", provider=ScriptedProvider(script), workspace=path / "work")
    registry = PluginRegistry(workspace=path / "work", services={"environ": {"PATH": "/usr/bin:/bin"}})
    registry.expose_tool("cli")
    client.configure_tools(registry, **tools)
    return client


def results(client: JaatoClient) -> list[ToolResult]:
    """What the model was given back."""
    return [part for m in client.get_history() for part in m.parts if isinstance(part, ToolResult)]


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.2")
def test_the_given_permission_plugin_decides(tmp_path: Path) -> None:
    """`configure_tools(registry, permission_plugin)`: its file's rules hold, and its channel is asked for the rest."""
    policy = tmp_path / "rules.json"
    policy.write_text(
        json.dumps(
            {"version": 1, "whitelist": {"patterns": ["touch *"]}, "blacklist": {"patterns": ["rm *"]}}
        )
    )
    channel = QueueChannel()
    plugin = PermissionPlugin(
        policy, workspace=tmp_path / "work", state_dir=tmp_path / "state", trusted=True, channel=channel
    )
    channel.close()
    script = [
        call("run", command="touch a", need=["write"]),
        call("run", command="rm a", need=["write"]),
        call("run", command="mkdir b", need=["write"]),
        say("done"),
    ]
    with client_of(tmp_path, script, permission_plugin=plugin) as client:
        assert client.send_message("go") == "done"
        allowed, forbidden, unanswered = results(client)
        assert (allowed.ok, forbidden.ok, unanswered.ok) == (True, False, False)
        assert "rm *" in str(forbidden.result)
    assert (tmp_path / "work" / "a").exists()
    assert not (tmp_path / "work" / "b").exists()


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.2")
def test_tool_hooks_are_called_with_the_printed_keywords(tmp_path: Path) -> None:
    """`agent_id`, `tool_name`, `tool_args`, then `success` and `duration_seconds`: all by keyword."""
    heard: list[tuple[str, dict[str, Any]]] = []

    class Hooks:
        def on_tool_call_start(self, **told: Any) -> None:
            heard.append(("start", told))

        def on_tool_call_end(self, **told: Any) -> None:
            heard.append(("end", told))

    with client_of(tmp_path, [call("run", command="ls"), say("done")]) as client:
        client.set_ui_hooks(Hooks())
        client.send_message("go")
    (first, started), (last, ended) = heard
    assert (first, started) == (
        "start",
        {"agent_id": "main", "tool_name": "run", "tool_args": {"command": "ls"}},
    )
    assert last == "end"
    assert ended.pop("duration_seconds") >= 0
    assert ended == {"agent_id": "main", "tool_name": "run", "success": True}


@pytest.mark.spec("S3", "Runtime vs Session Separation", "S3.separation.1")
def test_sessions_of_a_runtime_share_its_ledger(tmp_path: Path) -> None:
    """`get_runtime().create_session()` shares registry and ledger with the main session, and has its own history."""
    ledger = TokenLedger()
    with client_of(tmp_path, [say("one"), say("two")], ledger=ledger) as client:
        client.send_message("first")
        runtime = client.get_runtime()
        assert runtime.ledger is ledger
        other = runtime.create_session()
        assert other.send_message("second") == "two"
        assert [m.text for m in other.get_history()] == ["second", "two"]
        assert [m.text for m in client.get_history()] == ["first", "one"]
        other.close()
    totals = ledger.totals()
    assert (totals["model_calls"], totals["total_tokens"]) == (
        2,
        2 * (USAGE.input_tokens + USAGE.output_tokens),
    )


def test_sessions_end_with_their_client(tmp_path: Path) -> None:
    """What `create_session` has made and its program has not closed ends with the runtime: no store stays open."""
    with client_of(tmp_path, [say("one"), say("two")]) as client:
        client.send_message("first")
        main, other = client.get_session(), client.get_runtime().create_session()
        assert other.send_message("second") == "two"
        early = client.get_runtime().create_session()
        early.close()
        assert (main.closed, other.closed, early.closed) == (False, False, True)
    assert main.closed
    assert other.closed
    opened = [file.path for file in psutil.Process().open_files()]
    assert not [path for path in opened if path.startswith(str(tmp_path))]


@pytest.mark.spec("S1", "Auto-Background")
def test_a_task_of_an_executor_is_listed_and_stopped(tmp_path: Path) -> None:
    """The background tools see the executor's own tasks, and stopping one ends what it started."""
    started = threading.Event()
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        started.set()

    registry = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin"}})
    registry.expose_tool("cli")
    registry.expose_tool("background")
    found = registry.catalog.find("run")
    assert found is not None
    found.tool.background_after_s = 0.1
    executor = ToolExecutor()
    executor.set_registry(registry)
    try:
        ok, result = executor.execute(
            "run", {"command": "echo $$; exec sleep 600"}, tool_output_callback=hear
        )
        assert (ok, result["auto_backgrounded"]) == (True, True)
        assert started.wait(60)
        assert alive(int(said[0]))
        listed = executor.execute("list_background", {})[1]["tasks"]
        assert [(task["task_id"], task["status"]) for task in listed] == [(result["task_id"], "running")]
        stopped = executor.execute("stop_background", {"task_id": result["task_id"]})
        assert stopped == (True, {"task_id": result["task_id"], "stopped": True})
        task = executor.tasks.get(result["task_id"])
        assert task is not None
        assert task.done.wait(60)
        assert task.status == "cancelled"
        assert not alive(int(said[0]))
    finally:
        registry.shutdown()
