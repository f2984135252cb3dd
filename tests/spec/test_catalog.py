"""The catalogue of tools: names, aliases, categories, core tools, discovery by the model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, provider_of, results, say, session
from tests.spec.documented import Documented, schema

from jaato.plugins import BUILTIN
from jaato.runtime.executor import ToolExecutor
from jaato.runtime.registry import PluginRegistry
from jaato.tools.catalog import wire_name
from jaato.tools.tool import Tool, tool, tool_from

PLAN_TOOLS = [
    "createPlan",
    "startPlan",
    "setStepStatus",
    "getPlanStatus",
    "addStep",
    "completePlan",
    "listPlans",
    "clearPlan",
]
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
    "system": ["list_tools", "get_tool_schemas", "run", "get_environment"],
    "filesystem": ["readFile", *FILE_TOOLS, "glob_files"],
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
}
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
}
PLAN_ALIASES = ["add_todo", "list_todos", "get_todo", "delete_todo", "mark_todo_complete", "clear_todos"]


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    """Every built-in plugin, exposed over a workspace of its own."""
    made = PluginRegistry(workspace=tmp_path, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": "/"}})
    made.expose_all()
    assert made.problems == {}
    yield made
    made.shutdown()


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


def listing(tmp_path: Path) -> Any:
    """list_tools over forty numbered tools in one category and thirty categories of one."""
    registry = PluginRegistry(workspace=tmp_path)
    many = [schema(f"count_{n}", category="numbers") for n in range(40)]
    registry.register_plugin(
        Documented("mine", *many, *[schema(f"solo_{n}", category=f"c{n:02}") for n in range(30)]), expose=True
    )
    registry.expose_tool("introspection")
    return registry.get_exposed_executors()["list_tools"]


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.1")
def test_without_arguments_the_categories_are_listed(tmp_path: Path) -> None:
    """Each with name, tool_count and description; the total and a hint beside them."""
    found = listing(tmp_path)({"limit": 200})
    assert set(found) == {"categories", "total_tools", "hint"}
    assert found["total_tools"] == 72
    assert set(found["categories"][0]) == {"name", "tool_count", "description"}
    assert "get_tool_schemas" in found["hint"]
    assert sum(row["tool_count"] for row in found["categories"]) == 72


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.4")
@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, lambda found: found["categories"]),
        ({"category": "numbers"}, lambda found: found["tools"]),
        ({"query": "count"}, lambda found: found["results"][0]["tools"]),
    ],
)
def test_limit_and_cursor_page_every_form(tmp_path: Path, arguments: dict[str, Any], rows: Any) -> None:
    """Pages of seven join to the whole, nothing twice; the last has no cursor; a foreign cursor is refused."""
    ask = listing(tmp_path)
    whole = [row["name"] for row in rows(ask({**arguments, "limit": 200}))]
    joined: list[str] = []
    cursor = None
    for _ in range(20):
        page = ask({**arguments, "limit": 7, "cursor": cursor})
        assert len(rows(page)) <= 7
        joined += [row["name"] for row in rows(page)]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert joined == whole
    assert len(set(joined)) == len(joined) > 7
    with pytest.raises(Exception, match="cursor"):
        ask({**arguments, "cursor": "-1"})


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.2")
@pytest.mark.spec("S0", "Introspection Mechanism", "S0.introspection.1")
def test_a_category_lists_first_sentences_of_at_most_a_hundred_characters(tmp_path: Path) -> None:
    """Descriptions are cut to their first sentence; verbose gives all of it; an unknown category says what exists."""
    long = "Does " + "very " * 60 + "much. And more."
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", schema("plain", category="x"))
    plugin.schemas.append(type(plugin.schemas[0])("wordy", long, {"type": "object"}, "x"))
    plugin.schemas.append(type(plugin.schemas[0])("two", "First one. Second one.", {"type": "object"}, "x"))
    plugin.executors |= {"wordy": str, "two": str}
    registry.register_plugin(plugin, expose=True)
    registry.expose_tool("introspection")
    ask = registry.get_exposed_executors()["list_tools"]
    found = ask({"category": "x"})
    assert (found["category"], found["tool_count"]) == ("x", 3)
    texts = {row["name"]: row["description"] for row in found["tools"]}
    assert texts["plain"] == "What plain does."
    assert texts["two"] == "First one."
    assert len(texts["wordy"]) <= 100
    assert texts["wordy"].endswith("…")
    verbose = {row["name"]: row["description"] for row in ask({"category": "x", "verbose": True})["tools"]}
    assert verbose["wordy"] == long
    assert ask({"category": "nope"})["categories"] == ["system", "x"]
    registry.shutdown()


@pytest.mark.spec("C1", "Results of the two introspection tools", "C1.introspection.3")
def test_queries_are_ranked_with_category_access_and_score(tmp_path: Path) -> None:
    """Each query has its ranked tools; access says whether a call is allowed, asked about or denied."""
    from jaato.tools.permissions import Policy

    async def main() -> None:
        script = [
            call(
                "list_tools", queries=["search text in files", "remove a file", "write a new file"], limit=30
            ),
            say("done"),
        ]
        policy = Policy.of({"blacklist": {"tools": ["removeFile"]}})
        async with session(tmp_path, script, plugins=list(BUILTIN), policy=policy) as live:
            await live.post("go")
            entries = results(live)[0].structured["results"]
            assert [entry["query"] for entry in entries][1] == "remove a file"
            best = [entry["tools"][0] for entry in entries]
            assert [row["name"] for row in best] == ["grep_content", "removeFile", "writeNewFile"]
            assert [row["access"] for row in best] == ["allowed", "denied", "asks"]
            assert best[0]["category"] == "search"
            scores = [row["score"] for row in entries[0]["tools"]]
            assert scores == sorted(scores, reverse=True)

    anyio.run(main)


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
