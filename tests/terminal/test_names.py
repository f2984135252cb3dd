"""The tools for terminals and for code by its structure, as the catalogue lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.runtime.plugins.registry import PluginRegistry

SHELLS = ["shell_spawn", "shell_input", "shell_read", "shell_control", "shell_close", "shell_list"]


@pytest.mark.spec("C1", "Tool names", "C1.names.9")
@pytest.mark.spec("S0", "Available Categories", "S0.categories.6")
def test_names_categories_and_modes(tmp_path: Path) -> None:
    """They are discoverable, in their categories, and only what looks or ends runs without asking."""
    registry = PluginRegistry(workspace=tmp_path)
    for plugin in ("terminal", "search", "web"):
        registry.expose_tool(plugin)
    try:
        found = {tool.name: tool.spec for tool in registry.catalog}
        for name in SHELLS:
            assert (found[name].category, found[name].discoverability) == ("system", "discoverable")
        for name in ("ast_search", "web_search"):
            assert (found[name].category, found[name].discoverability) == ("search", "discoverable")
        reading = [name for name in SHELLS if found[name].access == "read"]
        assert reading == ["shell_read", "shell_close", "shell_list"]
        assert {found[name].access for name in SHELLS} == {"read", "execute"}
        assert found["ast_search"].access == "read"
    finally:
        registry.shutdown()
