"""Built-in plugins are known before they are imported, and made when they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.kit import call, plan, runtime, say

from jaato.plugins import BUILTIN
from jaato.plugins.todo import TodoPlugin
from jaato.protocol.messages import ToolResult
from jaato.runtime.plugins.lazy import MANIFESTS, LazyPlugin, load_manifests
from jaato.runtime.plugins.registry import PluginHost, PluginRegistry


def test_what_is_known_is_what_the_code_declares(tmp_path: Path) -> None:
    """The file beside the plugins is the one `make docs` writes; each stand-in is its tool in every respect."""
    from docs.generate_tools import known_file, toolsets

    assert MANIFESTS.read_text(encoding="utf-8") == known_file()
    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_all()
    for toolset in toolsets():
        for tool in toolset.tools:
            found = registry.catalog.find(tool.name)
            assert found is not None
            known = found.tool
            for aspect in (
                "spec",
                "checked",
                "aliases",
                "is_async",
                "background_after_s",
                "timeout_s",
                "plugin",
            ):
                assert getattr(known, aspect) == getattr(tool, aspect), (tool.name, aspect)
    registry.shutdown()


def test_a_plugin_made_at_once_declares_what_is_known_of_it(tmp_path: Path) -> None:
    """A built-in plugin that is made at its exposure takes its declarations from the file; a class that a program
    derives from it has those of its code."""

    class Derived(TodoPlugin):
        """Plans of a program."""

    known = {one.spec.name: one.spec for one in load_manifests()["todo"].tools}
    for kind, is_known in ((TodoPlugin, True), (Derived, False)):
        registry = PluginRegistry(workspace=tmp_path)
        registry.register_plugin(kind(PluginHost(registry, {})), expose=True)
        toolset = registry.toolset("todo")
        assert toolset is not None
        specs = {one.name: one.spec for one in toolset.tools}
        assert specs == known
        assert all((specs[name] is spec) == is_known for name, spec in known.items())
        registry.shutdown()


def test_exposing_everything_imports_no_plugin(tmp_path: Path) -> None:
    """What is not used costs no import: of the built-in plugins none is loaded by knowing them all."""
    code = (
        "import sys; from pathlib import Path; from jaato.runtime.plugins.registry import PluginRegistry; "
        f"registry = PluginRegistry(workspace=Path({str(tmp_path)!r})); registry.expose_all(); "
        "print(len(registry.catalog), [name for name in sys.modules if name.startswith('jaato.plugins.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, _, loaded = done.stdout.partition(" ")
    assert int(count) >= 60
    assert loaded.strip() == "[]"


def test_the_first_call_makes_the_plugin_and_the_end_lets_go_of_it(tmp_path: Path) -> None:
    """A plugin is made by the first call of one of its tools, wired like any other, and shut down once."""

    async def main() -> None:
        made = runtime(tmp_path, [], ["introspection", "file_edit", "todo"])
        toolset = made.registry.toolset("file_edit")
        other = made.registry.toolset("todo")
        assert toolset is not None
        assert other is not None
        assert isinstance(toolset.plugin, LazyPlugin)
        (tmp_path / "work" / "a.txt").write_text("here\n")
        async with made.create(plan(tmp_path, [call("readFile", path="a.txt"), say("done")])) as live:
            assert toolset.plugin.plugin is None
            await live.post("go")
            result = live.state.messages[-2].parts[0]
            assert isinstance(result, ToolResult)
            assert result.ok
        assert toolset.plugin.plugin is not None
        assert isinstance(other.plugin, LazyPlugin)
        assert other.plugin.plugin is None
        assert "set_workspace_path" in toolset.wiring
        made.close()

    anyio.run(main)


def test_work_left_half_done_is_put_right_at_once(tmp_path: Path) -> None:
    """A plugin that finds traces of work a killed process left is made when it is exposed."""
    staging = tmp_path / ".jaato" / "backups" / "staging"
    staging.mkdir(parents=True)
    (staging / "x.set").write_text("[]")
    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_tool("file_edit")
    toolset = registry.toolset("file_edit")
    assert toolset is not None
    assert not isinstance(toolset.plugin, LazyPlugin)
    registry.shutdown()


def test_a_configured_plugin_says_at_once_what_is_wrong_with_its_configuration(tmp_path: Path) -> None:
    """A mistake in the configuration is told when the plugin is exposed, not in the middle of a turn."""
    from jaato.errors import PluginError

    registry = PluginRegistry(workspace=tmp_path)
    with pytest.raises(PluginError, match="max_processes"):
        registry.expose_tool("cli", {"max_processes": "many"})
    registry.shutdown()


def test_every_builtin_plugin_can_wait() -> None:
    """None of those that come with jaato has to be imported at the start."""
    assert set(load_manifests()) == set(BUILTIN)
