"""The plugin `permission` in a registry: the built-in one, and one a program has made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say, session

from jaato.plugins.permission import PermissionPlugin
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry


def made(tmp_path: Path) -> PermissionPlugin:
    """A plugin whose file forbids one tool."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"defaultPolicy": "allow", "blacklist": {"tools": ["deleteFile"]}}))
    return PermissionPlugin(path, workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.4")
@pytest.mark.parametrize("built_in_first", [False, True])
def test_one_made_by_hand_answers_ask_permission(tmp_path: Path, built_in_first: bool) -> None:
    """Exposed in the place of the built-in one, or before it, its policy is what `askPermission` goes by."""
    registry = PluginRegistry(workspace=tmp_path)
    if built_in_first:
        registry.expose_tool("permission")
    registry.register_plugin(made(tmp_path), expose=True)
    registry.expose_all()
    assert registry.problems == {}
    executor = ToolExecutor()
    executor.set_registry(registry)
    answers: dict[str, Any] = {}
    for tool in ("deleteFile", "writeFile"):
        ok, answers[tool] = executor.execute("askPermission", {"tool": tool})
        assert ok
    assert {tool: answer["access"] for tool, answer in answers.items()} == {
        "deleteFile": "denied",
        "writeFile": "allowed",
    }
    registry.shutdown()


def test_the_built_in_one_asks_the_sessions_gate(tmp_path: Path) -> None:
    """`expose_tool("permission")` brings the model's tool, and nothing else."""

    async def main() -> None:
        script = [call("askPermission", tool="run", arguments={"command": "touch a"}), say("done")]
        async with session(tmp_path, script, plugins=["permission", "cli"]) as live:
            await live.post("go")
            assert results(live)[0].structured["tool"] == "run"
            assert [tool.name for tool in live.catalog] == ["askPermission", "run"]

    anyio.run(main)
