"""Other names of tools: resolved, run in their own spelling, owned once, never listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, provider_of, results, say, session
from tests.spec.documented import PLAN_TOOLS

from jaato.plugins import BUILTIN
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.tool import Tool, tool, tool_from

ALIASES = {
    "run": ["cli_based_tool", "cli_execute", "runCommand"],
    "setStepStatus": ["updateStep", "update_todo_step"],
    "writeNewFile": ["writeFile"],
    "removeFile": ["deleteFile"],
    "moveFile": ["renameFile"],
    "start_background": ["startBackgroundTask"],
    "check_background": ["getBackgroundTaskStatus", "checkBackgroundTask", "getBackgroundTask"],
    "get_background_output": ["getBackgroundTaskResult", "getBackgroundOutput"],
    "stop_background": ["cancelBackgroundTask"],
    "list_background": ["listBackgroundTasks"],
    "list_templates": ["listAvailableTemplates"],
    "renderTemplate": ["writeFileFromTemplate"],
    "lsp_goto_definition": ["lsp_query"],
}
PLAN_ALIASES = ["add_todo", "list_todos", "get_todo", "delete_todo", "mark_todo_complete", "clear_todos"]


@pytest.mark.spec("C1", "Tool names", "C1.names.3")
@pytest.mark.parametrize("alias", [a for many in ALIASES.values() for a in many] + PLAN_ALIASES)
def test_an_alias_is_resolved_and_never_listed(tmp_path: Path, alias: str) -> None:
    """get_tool_schemas gives the canonical tool for it; no form of list_tools, no schema shows it."""
    canonical = {a: name for name, many in ALIASES.items() for a in many}.get(alias)

    async def main() -> None:
        script = [
            call("get_tool_schemas", names=[alias]),
            call("list_tools", query=alias, verbose=True),
            call("list_tools"),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=list(BUILTIN)) as live:
            await live.post("go")
            schemas, ranked, categories = (result.structured for result in results(live))
            name = schemas["schemas"][0]["name"]
            assert name == canonical if canonical else name in PLAN_TOOLS
            assert schemas["not_found"] == []
            assert all(row["name"] != alias for entry in ranked["results"] for row in entry["tools"])
            assert alias not in {entry.name for entry in live.catalog}
            assert len(live.catalog) == categories["total_tools"]
            declared = {spec.name for request in provider_of(live).requests for spec in request.tools}
            assert alias not in declared

    anyio.run(main)


def in_workspace(path: Path) -> dict[str, dict[str, Any]]:
    """Arguments for each alias in the spelling its documents use."""
    (path / "a.txt").write_text("one\n")
    return {
        "cli_based_tool": {"command": "echo hi"},
        "cli_execute": {"cmd": "echo hi"},
        "runCommand": {"command": "echo hi"},
        "writeFile": {"path": "new.txt", "content": "x"},
        "renameFile": {"source_path": "a.txt", "destination_path": "b.txt"},
        "deleteFile": {"path": "b.txt"},
        "listBackgroundTasks": {},
    }


@pytest.mark.spec("C1", "Tool names", "C1.names.2")
def test_aliases_execute_with_their_own_spelling_of_the_arguments(
    registry: PluginRegistry, tmp_path: Path
) -> None:
    """Files, commands and lists by every other name, through the executor."""
    executor = ToolExecutor()
    executor.set_registry(registry)
    for alias, arguments in in_workspace(tmp_path).items():
        ok, result = executor.execute(alias, arguments)
        assert ok, (alias, result)
    assert (tmp_path / "new.txt").read_text() == "x"
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.spec("C1", "Tool names", "C1.names.2")
def test_plan_aliases_execute(tmp_path: Path) -> None:
    """The todo spellings drive the same plan as the canonical ones."""

    async def main() -> None:
        script = [
            call("createPlan", title="Paint", steps=["one", "two"]),
            call("startPlan"),
            call("add_todo", text="three"),
            call("list_todos"),
            call("get_todo"),
            call("clear_todos"),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=["introspection", "todo"]) as live:
            await live.post("go")
            problems = [result.error.message for result in results(live) if result.error]
            assert problems == []

    anyio.run(main)


def other(name: str, *aliases: str) -> Tool:
    """A tool with aliases, of a plugin of its own."""

    @tool(name=name, aliases={alias: {} for alias in aliases})
    async def made() -> str:
        """Do it."""
        return name

    return tool_from(made, f"plugin_{name}")


@pytest.mark.spec("C1", "Tool names", "C1.names.6")
def test_two_plugins_that_claim_one_alias_are_both_named(tmp_path: Path) -> None:
    """An alias has one owner too; a canonical name comes before another tool's alias."""
    from jaato.errors import PluginError
    from jaato.tools.catalog import Catalog

    catalog = Catalog()
    catalog.add([other("one", "shared")])
    with pytest.raises(PluginError, match="'shared': plugin_one and plugin_two"):
        catalog.add([other("two", "shared")])
    assert "two" not in catalog
    catalog.add([other("shared")])
    found = catalog.find("shared")
    assert found is not None
    assert found.tool.name == "shared"
