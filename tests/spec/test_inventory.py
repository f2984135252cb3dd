"""The tools there are: how many, in which categories, under which names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.mcp.hosting import configure, raw

from jaato import settings
from jaato.plugins import BUILTIN
from jaato.plugins.mcp.plugin import MCPToolPlugin
from jaato.protocol.codec import encode
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.tool import Tool

MOST_WORDS = 40
SUBAGENTS = [
    *("delegate", "continue_subagent", "get_subagent_result", "cancel_subagent", "close_subagent"),
    *("send_to_subagent", "list_active_subagents", "list_subagent_profiles", "set_shared_state"),
    *("get_shared_state", "list_shared_state", "share_context"),
]
NAMES = {
    "web": ["fetch_url", "fetch_url_post"],
    "memory": [
        *("list_templates", "get_template", "create_template", "delete_template", "renderTemplate"),
        *("listExtractedTemplates", "store_memory", "retrieve_memories", "list_memory_tags"),
    ],
    "search": ["grep_content", "ast_search", "web_search"],
    "knowledge": ["selectReferences", "listReferences"],
    "filesystem": ["viewImage"],
    "prompt": ["processCommand"],
    "system": [
        *("session_describe", "askPermission", "shell_spawn", "shell_input", "shell_read", "shell_control"),
        *("shell_close", "shell_list"),
    ],
    "coordination": [
        *SUBAGENTS,
        *("create_waypoint", "restore_waypoint", "delete_waypoint", "list_waypoints", "waypoint_info"),
    ],
    "code": [
        *("notebook_execute", "notebook_create", "notebook_variables", "notebook_reset", "notebook_list"),
        *("lsp_goto_definition", "lsp_find_references", "lsp_hover", "lsp_get_diagnostics"),
        *("lsp_document_symbols", "lsp_workspace_symbols", "lsp_rename_symbol", "lsp_get_code_actions"),
        "calculate",
    ],
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> PluginRegistry:
    """All that comes with jaato, for a model that sees."""
    environ = {"HOME": str(tmp_path_factory.mktemp("home")), "PATH": settings.environment()["PATH"]}
    made = PluginRegistry("gpt-5", workspace=tmp_path_factory.mktemp("work"), services={"environ": environ})
    made.expose_all()
    return made


@pytest.mark.spec("S0", "Discoverability Modes", "S0.modes.4")
def test_what_is_declared_first_is_a_small_part_of_all(registry: PluginRegistry) -> None:
    """The core tools have at most 30 % of the bytes of all declarations."""

    def size(tools: Iterable[Tool]) -> int:
        return sum(len(encode(tool.spec)) for tool in tools)

    assert 0 < size(registry.catalog.core) <= 0.3 * size(registry.catalog)


@pytest.mark.spec("S0", "Tool Inventory Summary", "S0.inventory.2")
def test_there_are_a_hundred_tools_over_ten_categories(registry: PluginRegistry) -> None:
    """At least so many, each with a description of forty words at most and a schema."""
    built_in = [tool for tool in registry.catalog if tool.plugin in BUILTIN]
    counts = Counter(tool.spec.category for tool in built_in)
    assert len(built_in) >= 100
    assert len(counts) >= 10
    for tool in built_in:
        words = len(tool.spec.description.split())
        assert 3 <= words <= MOST_WORDS, f"{tool.name} is described in {words} words"
        assert tool.spec.parameters["type"] == "object"


@pytest.mark.spec("C1", "Tool names", "C1.names.8")
@pytest.mark.spec("C1", "Tool names", "C1.names.11")
@pytest.mark.spec("S0", "Available Categories", "S0.categories.2")
@pytest.mark.spec("S0", "Available Categories", "S0.categories.4")
@pytest.mark.spec("C1", "Tool names", "C1.names.10")
@pytest.mark.spec("S0", "Available Categories", "S0.categories.3")
@pytest.mark.parametrize("category", NAMES)
def test_the_documented_names_are_listed_in_their_category(registry: PluginRegistry, category: str) -> None:
    """Each is a discoverable tool of that category, under exactly this name."""
    for name in NAMES[category]:
        found = registry.catalog.find(name)
        assert found is not None, name
        assert (found.tool.name, found.tool.spec.category) == (name, category)
        assert found.tool.spec.discoverability == "discoverable"


@pytest.mark.spec("S0", "Available Categories", "S0.categories.7")
@pytest.mark.spec("C1", "Tool names", "C1.names.11")
def test_save_waypoint_is_another_name_of_create_waypoint(registry: PluginRegistry) -> None:
    """The documented spelling finds the tool in its category, and is not listed itself."""
    found = registry.catalog.find("save_waypoint")
    assert found is not None
    assert (found.tool.name, found.tool.spec.category) == ("create_waypoint", "coordination")
    assert "save_waypoint" not in [tool.name for tool in registry.catalog.in_category("coordination")]


@pytest.mark.spec("S0", "Available Categories", "S0.categories.5")
@pytest.mark.spec("S4", "4. First-Class MCP Support", "S4.mcp.2")
def test_tools_of_several_servers_are_in_the_category_mcp(tmp_path: Path) -> None:
    """Two servers, connected once, each bring their tools as mcp__SERVER__TOOL."""
    import anyio

    from jaato.plugins.mcp.pool import SERVER_POOL

    configure(tmp_path, {"one": raw("fine"), "two": raw("fine")})
    environ = {"HOME": str(tmp_path), "PATH": settings.environment()["PATH"]}
    user = settings.load(environ=environ)
    registry = PluginRegistry(workspace=tmp_path, services={"environ": environ, "settings": user})
    try:
        registry.expose_tool("mcp")
        made = registry.toolset("mcp")
        assert made is not None
        assert isinstance(made.plugin, MCPToolPlugin)
        for server in ("one", "two"):
            anyio.run(made.plugin.servers.connect, server)
        names = [tool.name for tool in registry.catalog.in_category("MCP")]
    finally:
        registry.shutdown()
        SERVER_POOL.close()
    assert {"mcp__one__echo", "mcp__two__echo", "call_mcp_tool"} <= set(names)
