"""The catalogue of tools: names, categories, core tools, names on the wire, what the model cannot call."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest
from tests.kit import call, results, say, session
from tests.spec.documented import PLAN_TOOLS, Documented, schema

from jaato.plugins import BUILTIN
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.catalog import wire_name

FILE_TOOLS = [
    *(
        "writeNewFile",
        "updateFile",
        "removeFile",
        "moveFile",
        "copyFile",
        "createDirectory",
        "list_directory",
    ),
    *("get_file_info", "multiFileEdit", "findAndReplace", "undoFileChange", "restoreFile", "listBackups"),
]
CORE = ["list_tools", "get_tool_schemas", "readFile", "run", "get_environment", *PLAN_TOOLS]
CATEGORIES = {
    "system": [
        *("list_tools", "get_tool_schemas", "run", "get_environment"),
        *("session_describe", "askPermission"),
    ],
    "filesystem": ["readFile", *FILE_TOOLS, "glob_files", "viewImage"],
    "search": ["grep_content"],
    "coordination": [
        *PLAN_TOOLS,
        *(
            "start_background",
            "check_background",
            "get_background_output",
            "stop_background",
            "list_background",
        ),
    ],
    "communication": ["request_clarification"],
    "memory": [
        *("list_templates", "get_template", "create_template", "delete_template", "renderTemplate"),
        *("listExtractedTemplates", "store_memory", "retrieve_memories", "list_memory_tags"),
    ],
    "knowledge": ["selectReferences", "listReferences"],
}


@pytest.mark.spec("S0", "Core Tool Registry", "S0.core.1")
@pytest.mark.spec("S0", "Core Tool Registry", "S0.core.3")
@pytest.mark.spec("S0", "Tool Inventory Summary", "S0.inventory.1")
def test_the_core_tools_are_the_documented_ones_in_their_order(registry: PluginRegistry) -> None:
    """Introspection, readFile, run, get_environment, the plan tools: these, in this order, and no other."""
    names = [entry.name for entry in registry.catalog.core]
    assert sorted(names) == sorted(CORE)
    assert names[:5] == CORE[:5]
    assert set(names[5:]) == set(PLAN_TOOLS)
    assert len(registry.catalog.in_category("filesystem")) >= 10


@pytest.mark.spec("S0", "Core Tool Registry", "S0.core.2")
def test_the_core_tools_come_from_the_documented_plugins(registry: PluginRegistry) -> None:
    """introspection, file_edit, cli, environment and todo, under these names."""
    owners = {entry.name: entry.plugin for entry in registry.catalog.core}
    assert owners["list_tools"] == owners["get_tool_schemas"] == "introspection"
    assert (owners["readFile"], owners["run"], owners["get_environment"]) == (
        "file_edit",
        "cli",
        "environment",
    )
    assert {owners[name] for name in PLAN_TOOLS} == {"todo"}
    assert set(owners.values()) <= set(BUILTIN)


@pytest.mark.spec("C1", "Tool names", "C1.names.1")
@pytest.mark.spec("S0", "Available Categories", "S0.categories.1")
def test_every_canonical_name_is_there_in_its_category_and_mode(registry: PluginRegistry) -> None:
    """The table of the contract, for the tools of the kernel."""
    found = {name: [t.name for t in registry.catalog.in_category(name)] for name in CATEGORIES}
    for category, names in CATEGORIES.items():
        assert set(names) <= set(found[category]), category
    for entry in registry.catalog:
        mode = "core" if entry.name in CORE else "discoverable"
        assert entry.spec.discoverability == mode, entry.name


@pytest.mark.spec("C1", "Tool names", "C1.names.4")
def test_categories_are_open(tmp_path: Path) -> None:
    """A category nobody foresaw, and none at all, are counted, listed and searched."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("lab", schema("titrate", category="chemistry"), schema("stir"))
    registry.register_plugin(plugin, expose=True)
    registry.expose_tool("introspection")
    tools = registry.get_exposed_executors()
    rows = {row["name"]: row["tool_count"] for row in tools["list_tools"]({})["categories"]}
    assert rows == {"chemistry": 1, "system": 2, "uncategorized": 1}
    assert tools["list_tools"]({"category": "Chemistry"})["tools"][0]["name"] == "titrate"
    assert tools["list_tools"]({"category": "uncategorized"})["tools"][0]["name"] == "stir"
    assert tools["list_tools"]({"query": "chemistry"})["results"][0]["tools"][0]["name"] == "titrate"
    registry.shutdown()


@pytest.mark.spec("C1", "Tool names", "C1.names.5")
@pytest.mark.parametrize("name", ["weather.today", "a b", "größe", "x" * 65, "mcp/server/tool", "日本"])
def test_a_name_providers_do_not_take_is_mangled_and_found_by_its_original(tmp_path: Path, name: str) -> None:
    """On the wire: at most 64 of A-Z a-z 0-9 _ -, ending in eight hex digits; schemas are found by the original."""
    wired = wire_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wired)
    assert re.search(r"_[0-9a-f]{8}$", wired)
    assert wire_name(name + "x") != wired
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(Documented("odd", name), expose=True)
    registry.expose_tool("introspection")
    tools = registry.get_exposed_executors()
    assert tools["get_tool_schemas"]({"names": [name]})["schemas"][0]["name"] == wired
    assert tools["list_tools"]({"query": name})["results"][0]["tools"][0]["name"] == wired
    executor = ToolExecutor()
    executor.set_registry(registry)
    for spelling in (name, wired):
        assert executor.execute(spelling, {"text": "hi"}) == (True, {"said": "hi", "by": "odd"})
    registry.shutdown()


def test_a_name_providers_take_stays_as_it_is() -> None:
    """Sixty-four characters of the allowed kind are a wire name."""
    for name in ("a", "A-b_9", "x" * 64):
        assert wire_name(name) == name


@pytest.mark.spec("C1", "Tool names", "C1.names.7")
def test_a_plugin_of_the_documented_shape_is_adapted_once(tmp_path: Path) -> None:
    """Its methods are asked at exposure; calls and listings ask nothing again."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", "shout")
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor()
    executor.set_registry(registry)
    for _ in range(3):
        registry.get_exposed_tool_schemas()
        registry.get_exposed_executors()
        executor.execute("shout", {"text": "x"})
    assert plugin.journey.count("schemas") == 1


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.7")
@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.2")
def test_the_model_cannot_call_a_user_command(tmp_path: Path) -> None:
    """Not by a call, not through get_tool_schemas, not in the background."""

    async def main() -> None:
        script = [
            call("plan"),
            call("get_tool_schemas", names=["plan", "start_background"]),
            call("start_background", tool="plan"),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=["introspection", "todo", "background"]) as live:
            await live.post("go")
            refused, schemas, background = results(live)
            assert refused.error is not None
            assert refused.error.message == "No executor registered for plan"
            assert schemas.structured["not_found"] == ["plan"]
            assert background.error is not None
            assert "No tool 'plan'" in background.error.message

    anyio.run(main)
