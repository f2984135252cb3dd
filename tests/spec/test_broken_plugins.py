"""Plugins that fail in every way: named, reported, and without harm to the others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spec.documented import PARAMETERS, Documented, schema

from jaato.abc.plugin import ToolSchema
from jaato.errors import PluginError
from jaato.runtime.plugins.registry import PluginRegistry


class Nameless(Documented):
    """One that forgot its name."""

    def __init__(self) -> None:
        super().__init__("")


class Exploding(Documented):
    """One that raises in a method of its own."""

    def __init__(self, method: str, error: BaseException) -> None:
        super().__init__("exploding", "boom")
        self.error = error

        def explode(*_arguments: Any) -> Any:
            raise error

        setattr(self, method, explode)


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "initialize raises": (lambda: Exploding("initialize", ValueError("no key")), "no key"),
    "initialize exits": (lambda: Exploding("initialize", SystemExit(3)), "3"),
    "set_plugin_registry raises": (lambda: Exploding("set_plugin_registry", KeyError("r")), "'r'"),
    "set_workspace_path raises": (lambda: Exploding("set_workspace_path", OSError("gone")), "gone"),
    "get_tool_schemas raises": (lambda: Exploding("get_tool_schemas", RuntimeError("db")), "db"),
    "get_executors raises": (lambda: Exploding("get_executors", RuntimeError("db")), "db"),
    "get_user_commands raises": (lambda: Exploding("get_user_commands", RuntimeError("db")), "db"),
    "get_model_requirements raises": (
        lambda: Exploding("get_model_requirements", RuntimeError("db")),
        "db",
    ),
    "parameters are no dict": (
        lambda: Documented("bad", ToolSchema("t", "d", [1])),  # type: ignore[arg-type]  # what it is about
        "parameters of t are list",
    ),
    "parameters are no JSON Schema": (
        lambda: Documented("bad", ToolSchema("t", "d", {"type": "object", "properties": {"a": {"type": 5}}})),
        "tool t",
    ),
    "parameters are not JSON": (
        lambda: Documented("bad", ToolSchema("t", "d", {"type": "object", "default": {1, 2}.__contains__})),
        "tool t",
    ),
    "parameters refer elsewhere": (
        lambda: Documented("bad", ToolSchema("t", "d", {"$ref": "http://127.0.0.1:1/schema"})),
        "tool t",
    ),
    "parameters are of an array": (
        lambda: Documented("bad", ToolSchema("t", "d", {"type": "array"})),
        "arguments are always an object",
    ),
    "discoverability is unknown": (
        lambda: Documented("bad", schema("t", discoverability="hidden")),
        "core or discoverable, not 'hidden'",
    ),
    "a tool has no name": (lambda: Documented("bad", ToolSchema("", "d", PARAMETERS)), "without a name"),
    "a tool is named twice": (lambda: Documented("bad", "t", "t"), "bad and bad"),
    "a schema has no executor": (lambda: without_executor(), "declares t but get_executors"),
    "an executor cannot be called": (lambda: with_executor(7), "the executor of t is a int"),
}


def without_executor() -> Documented:
    """One that declares a tool and forgets to bring it."""
    plugin = Documented("bad", "t")
    plugin.executors = {}
    return plugin


def with_executor(executor: Any) -> Documented:
    """One whose tool is this."""
    plugin = Documented("bad", "t")
    plugin.executors = {"t": executor}
    return plugin


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.6")
@pytest.mark.parametrize("case", list(BROKEN))
def test_a_broken_plugin_is_refused_by_name_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    """The error names plugin and reason, nothing of the plugin stays, it is released, and others go on."""
    make, words = BROKEN[case]
    plugin = make()
    registry = PluginRegistry(workspace=tmp_path)
    good = Documented("good", "fine")
    registry.register_plugin(good, expose=True)
    registry.register_plugin(plugin)
    with pytest.raises(PluginError) as caught:
        registry.expose_tool(plugin.name)
    assert words in str(caught.value)
    assert plugin.name in str(caught.value)
    assert words in registry.problems[plugin.name]
    assert [declared.name for declared in registry.get_exposed_tool_schemas()] == ["fine"]
    assert registry.list_exposed() == ["good"]
    assert "good" in registry.expose_all()
    registry.shutdown()
    assert good.journey.count("shutdown") == 1
    tried = 0 if case == "get_model_requirements raises" else 2
    assert plugin.journey.count("shutdown") == tried


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.6")
@pytest.mark.parametrize(
    "statement", ["raise RuntimeError('no')", "import nothing_of_that_name", "exit(3)", "("]
)
def test_a_module_that_cannot_be_imported_is_reported(
    tmp_path: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Discovery goes on; the module is named with what went wrong, without a traceback."""
    (tmp_path / "broken.py").write_text(f"PLUGIN_KIND = 'tool'\n{statement}\n")
    registry = PluginRegistry(workspace=tmp_path, plugin_dirs=[tmp_path])
    with caplog.at_level(logging.WARNING):
        assert "cli" in registry.discover()
    assert "cannot be imported" in registry.problems["broken"]
    assert any("broken" in record.getMessage() and not record.exc_info for record in caplog.records)


def test_a_plugin_without_a_name_is_refused(tmp_path: Path) -> None:
    """By hand at once; from a directory under the name of its file, which expose_all reports and passes over."""
    with pytest.raises(PluginError, match="has no `name`"):
        PluginRegistry(workspace=tmp_path).register_plugin(Nameless(), expose=True)
    (tmp_path / "anonymous.py").write_text(
        "PLUGIN_KIND = 'tool'\nclass Quiet:\n    def get_tool_schemas(self):\n        return []\n"
    )
    registry = PluginRegistry(workspace=tmp_path, plugin_dirs=[tmp_path])
    assert "introspection" in registry.expose_all()
    assert "has no `name`" in registry.problems["anonymous"]
    registry.shutdown()


@pytest.mark.spec("C1", "Tool names", "C1.names.6")
def test_two_plugins_that_offer_one_tool_are_both_named(tmp_path: Path) -> None:
    """The second is refused whole: none of its tools is there, and the first's still runs."""
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(Documented("first", "shared"), expose=True)
    with pytest.raises(PluginError, match="'shared': first and second"):
        registry.register_plugin(Documented("second", "own", "shared"), expose=True)
    assert [declared.name for declared in registry.get_exposed_tool_schemas()] == ["shared"]
    assert registry.get_exposed_executors()["shared"]({"text": "x"})["by"] == "first"


@pytest.mark.spec("C1", "Tool names", "C1.names.6")
def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two modules whose plugins call themselves the same: the second is refused and both are named."""
    text = (
        "PLUGIN_KIND = 'tool'\nclass {0}:\n    name = 'same'\n"
        "    def get_tool_schemas(self): return []\n    def get_executors(self): return {{}}\n"
    )
    (tmp_path / "one.py").write_text(text.format("One"))
    (tmp_path / "two.py").write_text(text.format("Two"))
    registry = PluginRegistry(workspace=tmp_path, plugin_dirs=[tmp_path])
    assert registry.expose_tool("one")
    with pytest.raises(PluginError, match=r"Two plugins are called 'same': .*One and .*Two"):
        registry.expose_tool("two")
    assert registry.expose_tool("one")
    registry.unexpose_tool("one")
    assert registry.list_exposed() == []


def test_a_shutdown_that_raises_keeps_no_other_from_its_own(tmp_path: Path) -> None:
    """Every plugin is shut down, also behind one that raises or exits."""
    registry = PluginRegistry(workspace=tmp_path)
    plugins = [Exploding("shutdown", RuntimeError("x")), Documented("last", "z")]
    plugins[0].name = "first"
    exits = Exploding("shutdown", SystemExit(1))
    exits.schemas = []
    for plugin in (plugins[0], exits, plugins[1]):
        registry.register_plugin(plugin, expose=True)
    registry.shutdown()
    assert plugins[1].journey[-1] == "shutdown"
    assert registry.list_exposed() == []


def test_a_session_setter_that_raises_is_reported(tmp_path: Path) -> None:
    """The others are told of the session all the same."""
    registry = PluginRegistry(workspace=tmp_path)
    bad, good = Exploding("set_session", RuntimeError("x")), Documented("good")
    registry.register_plugin(bad, expose=True)
    registry.register_plugin(good, expose=True)
    registry.set_session("the session")
    assert good.told["session"] == "the session"
    assert "cannot join the session" in registry.problems["exploding"]
