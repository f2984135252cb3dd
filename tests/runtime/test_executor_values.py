"""What `ToolExecutor.execute` returns for the built-in tools: plain values that can be written as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaato.plugins.permission import PermissionPlugin
from jaato.protocol.messages import Media
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.call import Output

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "grep_content": ({"pattern": "needle"}, "matches"),
    "list_directory": ({"path": "."}, "entries"),
    "glob_files": ({"pattern": "*.txt"}, "files"),
    "get_file_info": ({"path": "a.txt"}, "size_bytes"),
    "cli_based_tool": ({"command": "echo hello"}, "output"),
    "get_environment": ({}, "workspace"),
    "list_tools": ({}, "categories"),
    "get_tool_schemas": ({"names": ["readFile"]}, "schemas"),
    "createPlan": ({"title": "t", "steps": ["one"]}, "plan_id"),
    "listBackgroundTasks": ({}, "tasks"),
    "calculate": ({"expression": "1 + 1"}, "value"),
    "list_waypoints": ({}, "waypoints"),
    "list_memory_tags": ({}, "tags"),
    "listReferences": ({}, "references"),
    "listAvailableTemplates": ({}, "templates"),
}
"""A call of each kind of tool, and a key of its result."""


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[ToolExecutor]:
    """An executor over every built-in plugin, in a workspace with one file."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a needle\n")
    registry = PluginRegistry(
        workspace=workspace, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": "/"}}
    )
    registry.expose_all()
    made = ToolExecutor()
    made.set_registry(registry)
    yield made
    registry.shutdown()


def allow_everything(tmp_path: Path) -> PermissionPlugin:
    """A permission plugin of a file that allows what it is asked for."""
    path = tmp_path / "permissions.json"
    path.write_text(json.dumps({"version": 1, "defaultPolicy": "allow"}))
    return PermissionPlugin(path, workspace=tmp_path / "work", state_dir=tmp_path / "state", trusted=True)


@pytest.mark.spec("S1", "execute()", "S1.execute.3")
@pytest.mark.spec("S1", "execute()", "S1.execute.1")
@pytest.mark.spec("S1", "Result Structure", "S1.result.3")
@pytest.mark.parametrize("name", CALLS)
def test_a_built_in_tool_gives_plain_data_with_its_permission(
    executor: ToolExecutor, tmp_path: Path, name: str
) -> None:
    """A dict of JSON types, and with a permission plugin the same with `_permission`."""
    arguments, key = CALLS[name]
    ok, result = executor.execute(name, arguments)
    assert ok, result
    assert type(result) is dict
    assert key in result
    assert json.loads(json.dumps(result)) == result
    executor.set_permission_plugin(allow_everything(tmp_path))
    ok, judged = executor.execute(name, arguments)
    assert ok, judged
    assert result.keys() | {"_permission"} == judged.keys()
    assert judged["_permission"]["decision"] == "allowed"


def test_a_result_that_is_text_takes_the_permission_as_a_dict(executor: ToolExecutor, tmp_path: Path) -> None:
    """`readFile` gives text; where permissions are checked it is the `result` beside `_permission`."""
    assert executor.execute("readFile", {"path": "a.txt"}) == (True, "a needle\n")
    executor.set_permission_plugin(allow_everything(tmp_path))
    ok, result = executor.execute("readFile", {"path": "a.txt"})
    assert (ok, result["result"]) == (True, "a needle\n")
    assert set(result["_permission"]) == {"decision", "reason", "method"}


def test_search_results_are_the_documented_data(executor: ToolExecutor) -> None:
    """Programs read matches and entries as data; the text the model reads is beside them."""
    _, found = executor.execute("grep_content", {"pattern": "needle"})
    assert found["matches"] == [{"path": "a.txt", "line": 1, "text": "a needle"}]
    assert "a needle" in found["text"]
    _, listed = executor.execute("list_directory", {"path": "."})
    assert [(row["name"], row["kind"]) for row in listed["entries"]] == [("a.txt", "file")]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Output("text"), "text"),
        (Output("text", {"n": 1}), {"n": 1, "text": "text"}),
        (Output("shown", {"text": "own"}), {"text": "own"}),
        (Output("text", [1, 2]), {"result": [1, 2], "text": "text"}),
        (Output("", {"n": 1}), {"n": 1}),
        (
            Output("an image", media=(Media("image/png", "ab" * 32, 4, "a.png"),)),
            {
                "text": "an image",
                "media": [
                    {
                        "type": "media",
                        "mime_type": "image/png",
                        "blob": "ab" * 32,
                        "size_bytes": 4,
                        "name": "a.png",
                    }
                ],
            },
        ),
    ],
)
def test_nothing_of_an_output_is_lost(value: Output, plain: Any) -> None:
    """Text, data and media of a tool's output are all there, and a tool's own keys come first."""
    executor = ToolExecutor()
    executor.register("t", lambda _args: value)
    assert executor.execute("t", {}) == (True, plain)
