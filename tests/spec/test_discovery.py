"""How plugins are found: installed distributions, directories, kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaato.abc.plugin import ENTRY_POINT_GROUPS
from jaato.errors import PluginError
from jaato.plugins import BUILTIN
from jaato.runtime.plugins.registry import PluginRegistry

MODULE = """
from jaato.abc.plugin import ToolSchema

PLUGIN_KIND = "{kind}"

class {name}:
    name = "{plugin}"
    def get_tool_schemas(self):
        return [ToolSchema("{plugin}_tool", "Do it.", {{"type": "object"}})]
    def get_executors(self):
        return {{"{plugin}_tool": lambda args: "done by {plugin}"}}
    def initialize(self, config=None): pass
    def shutdown(self): pass
    def get_system_instructions(self): return None
    def get_auto_approved_tools(self): return []
    def get_user_commands(self): return []
"""


def module(plugin: str, kind: str = "tool", name: str = "Mine") -> str:
    """The text of a plugin module."""
    return MODULE.format(plugin=plugin, kind=kind, name=name)


@pytest.mark.spec("S0", "Plugin Lifecycle", "S0.lifecycle.1")
@pytest.mark.spec("S3", "Plugin Kind Identification", "S3.kinds.2")
def test_plugins_of_an_installed_distribution_are_found_by_kind(tmp_path: Path) -> None:
    """Each kind is looked for in its own entry-point group; a tool plugin is exposed and runs."""
    assert ENTRY_POINT_GROUPS == {
        "tool": "jaato.plugins",
        "gc": "jaato.gc_plugins",
        "session": "jaato.session_plugins",
        "model_provider": "jaato.model_providers",
    }
    site = tmp_path / "site"
    info = site / "thirdparty-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "thirdparty.py").write_text(module("voice"))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[jaato.plugins]\nvoice = thirdparty:Mine\n"
        "[jaato.gc_plugins]\ngc_mine = thirdparty:Mine\n"
        "[jaato.session_plugins]\nkeep = thirdparty:Mine\n"
        "[jaato.model_providers]\nmodel = thirdparty:Mine\n"
    )
    program = """
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.embedding.executor import ToolExecutor
registry = PluginRegistry()
for kind in ("tool", "gc", "session", "model_provider"):
    print(kind, *[name for name in registry.discover(kind) if name in ("voice", "gc_mine", "keep", "model")])
print("voice" in registry.discover())
registry.expose_tool("voice")
executor = ToolExecutor()
executor.set_registry(registry)
print(executor.execute("voice_tool", {}))
try:
    registry.expose_tool("gc_mine")
except Exception as error:
    print(type(error).__name__)
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}  # noqa: TID251 a child's
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "tool voice",
        "gc gc_mine",
        "session keep",
        "model_provider model",
        "True",
        "(True, 'done by voice')",
        "PluginError",
    ]


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.1")
def test_the_built_in_plugins_are_found_and_exposed_by_name(tmp_path: Path) -> None:
    """discover() is discover(plugin_kind="tool") and names them; expose_tool("cli") makes its tool known."""
    registry = PluginRegistry(workspace=tmp_path)
    assert set(BUILTIN) <= set(registry.discover(plugin_kind="tool"))
    assert registry.discover() == registry.discover("tool")
    assert registry.get_exposed_tool_schemas() == []
    registry.expose_tool("cli")
    assert "run" in {declared.name for declared in registry.get_exposed_tool_schemas()}
    registry.shutdown()
    with pytest.raises(PluginError, match="No plugin kind 'tools'"):
        registry.discover("tools")


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.2")
@pytest.mark.spec("S3", "Plugin Kind Identification", "S3.kinds.1")
def test_plugins_in_a_directory_are_found_if_their_kind_fits(tmp_path: Path) -> None:
    """Modules and packages whose PLUGIN_KIND is tool; others, and directories nobody named, are left alone."""
    folder = tmp_path / "plugins"
    (folder / "package").mkdir(parents=True)
    (folder / "single.py").write_text(module("single"))
    (folder / "package" / "__init__.py").write_text(module("package"))
    (folder / "collector.py").write_text(module("collector", kind="gc"))
    (folder / "library.py").write_text("x = 1\n")
    registry = PluginRegistry(workspace=tmp_path, plugin_dirs=[folder, tmp_path / "missing"])
    found = set(registry.discover())
    assert {"single", "package"} <= found
    assert not {"collector", "library"} & found
    assert "collector" in registry.discover("gc")
    registry.expose_tool("single")
    registry.expose_tool("package")
    assert registry.get_exposed_executors()["package_tool"]({}) == "done by package"
    assert "single" not in PluginRegistry(workspace=folder).discover()


def test_a_module_may_make_its_plugin_or_hold_exactly_one(tmp_path: Path) -> None:
    """create_plugin() is preferred; two classes without it are refused by name."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "made.py").write_text(
        module("made") + "\nclass Other(Mine):\n    pass\ndef create_plugin():\n    return Mine()\n"
    )
    (folder / "twins.py").write_text(module("twins") + module("twins", name="Second"))
    registry = PluginRegistry(workspace=tmp_path, plugin_dirs=[folder])
    assert registry.expose_tool("made")
    with pytest.raises(PluginError, match="defines 2 plugin classes; define create_plugin"):
        registry.expose_tool("twins")
