"""The plugin registry: phases, wiring, enrichment, requirements, registration by hand."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.spec.documented import Documented, Enriching, schema

from jaato.abc.plugin import PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.errors import PluginError
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.1")
def test_the_registry_has_the_documented_methods() -> None:
    """Constructor, methods and their parameters are those of the contract."""
    expected = {
        "discover": ["plugin_kind"],
        "expose_tool": ["name", "config"],
        "unexpose_tool": ["name"],
        "register_plugin": ["plugin", "expose", "enrichment_only"],
        "list_skipped_plugins": [],
        "get_exposed_tool_schemas": [],
        "get_exposed_executors": [],
        "get_exposed_user_commands": [],
        "get_prompt_enrichment_subscribers": [],
        "enrich_prompt": ["prompt"],
    }
    for name, parameters in expected.items():
        assert list(inspect.signature(getattr(PluginRegistry, name)).parameters)[1:] == parameters, name
    assert next(iter(inspect.signature(PluginRegistry).parameters)) == "model_name"
    assert PluginRegistry().model_name is None
    assert inspect.signature(PluginRegistry.discover).parameters["plugin_kind"].default == "tool"


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.5")
def test_the_documented_records_have_their_fields_and_defaults() -> None:
    """ToolSchema, UserCommand and PromptEnrichmentResult as the contract writes them."""
    declared = ToolSchema("t", "d", {})
    assert (declared.category, declared.discoverability) == (None, "discoverable")
    assert UserCommand("plan", "Show it.") == ("plan", "Show it.", False)
    assert PromptEnrichmentResult("p").prompt == "p"
    assert PromptEnrichmentResult("p").metadata == {}


@pytest.mark.spec("S0", "Plugin Lifecycle", "S0.lifecycle.2")
@pytest.mark.spec("S4", "7. Plugin Auto-Wiring", "S4.wiring.1")
@pytest.mark.spec("S4", "7. Plugin Auto-Wiring", "S4.wiring.3")
def test_exposure_initialises_wires_and_registers(tmp_path: Path) -> None:
    """The plugin is initialised with its configuration, given the registry, read, and told the workspace."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", "shout")
    registry.register_plugin(plugin)
    assert plugin.journey == []
    assert registry.expose_tool("mine", {"volume": 11})
    assert plugin.journey == ["initialize", "registry", "schemas", "workspace"]
    assert plugin.told == {
        "config": {"volume": 11},
        "registry": registry,
        "workspace": str(tmp_path.resolve()),
    }
    assert [declared.name for declared in registry.get_exposed_tool_schemas()] == ["shout"]
    assert registry.get_exposed_executors()["shout"]({"text": "hi"}) == {"said": "hi", "by": "mine"}


@pytest.mark.spec("S0", "Plugin Lifecycle", "S0.lifecycle.3")
@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.2")
def test_in_operation_a_plugin_gives_schemas_executors_instructions_and_commands(tmp_path: Path) -> None:
    """What the plugin declares is what the registry says of it, and its tools run."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", schema("shout", category="voice", discoverability="core"))
    plugin.commands = [UserCommand("mine", "Show it.", share_with_model=True)]
    plugin.executors["mine"] = lambda _args: "shown"
    registry.register_plugin(plugin, expose=True)
    (declared,) = registry.get_exposed_tool_schemas()
    assert (declared.name, declared.category, declared.discoverability) == ("shout", "voice", "core")
    assert declared.parameters["required"] == ["text"]
    toolset = registry.toolset("mine")
    assert toolset is not None
    assert toolset.instructions == "Use mine wisely."
    assert registry.get_exposed_user_commands() == [("mine", "Show it.", True)]
    assert registry.get_exposed_executors()["mine"]({}) == "shown"
    executor = ToolExecutor()
    executor.set_registry(registry)
    assert executor.execute("shout", {"text": "hey"}) == (True, {"said": "hey", "by": "mine"})


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.4")
def test_the_workspace_reaches_plugins_exposed_before_and_after(tmp_path: Path) -> None:
    """A change of workspace is told to exposed plugins; one exposed later is told at its exposure."""
    registry = PluginRegistry(workspace=tmp_path)
    early, late = Documented("early"), Documented("late")
    registry.register_plugin(early, expose=True)
    elsewhere = tmp_path / "elsewhere"
    registry.set_workspace_path(elsewhere)
    registry.register_plugin(late, expose=True)
    assert early.told["workspace"] == late.told["workspace"] == str(elsewhere.resolve())
    assert early.journey.count("workspace") == 2


@pytest.mark.spec("S0", "Plugin Lifecycle", "S0.lifecycle.4")
@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.3")
def test_a_plugin_is_shut_down_once(tmp_path: Path) -> None:
    """On unexpose or at the end, never twice; its tools are gone."""
    registry = PluginRegistry(workspace=tmp_path)
    first, second = Documented("first", "one"), Documented("second", "two")
    registry.register_plugin(first, expose=True)
    registry.register_plugin(second, expose=True)
    registry.unexpose_tool("first")
    registry.unexpose_tool("first")
    registry.unexpose_tool("never heard of")
    assert [declared.name for declared in registry.get_exposed_tool_schemas()] == ["two"]
    assert "one" not in registry.get_exposed_executors()
    registry.shutdown()
    registry.shutdown()
    assert first.journey.count("shutdown") == second.journey.count("shutdown") == 1
    assert registry.list_exposed() == []


def test_an_exposed_plugin_is_not_exposed_again(tmp_path: Path) -> None:
    """A second expose_tool changes nothing; after unexpose the plugin is initialised anew."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", "shout")
    registry.register_plugin(plugin)
    for _ in range(2):
        assert registry.expose_tool("mine")
    assert plugin.journey.count("initialize") == 1
    registry.unexpose_tool("mine")
    assert registry.expose_tool("mine")
    assert plugin.journey.count("initialize") == 2


def test_registering_by_hand_does_not_hide_what_can_be_found(tmp_path: Path) -> None:
    """With a plugin registered by hand, built-in ones are still found by name and by expose_all."""
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(Documented("mine", "shout"))
    assert registry.expose_tool("introspection")
    assert {"mine", "introspection", "file_edit"} <= set(registry.expose_all())
    registry.shutdown()


@pytest.mark.spec("S3", "Prompt Enrichment Pipeline", "S3.enrichment.1")
def test_subscribers_are_asked_by_priority_each_seeing_what_came_before(tmp_path: Path) -> None:
    """Lower priority first, whatever the order of exposure; metadata is kept by plugin."""
    registry = PluginRegistry(workspace=tmp_path)
    for name, priority in (("session", 90), ("references", 20), ("multimodal", 60), ("template", 40)):
        registry.register_plugin(Enriching(name, priority), expose=True)
    order = [plugin.name for plugin in registry.get_prompt_enrichment_subscribers()]
    assert order == ["references", "template", "multimodal", "session"]
    result = registry.enrich_prompt("do")
    assert result.prompt == "do references template multimodal session"
    assert result.metadata["multimodal"] == {"saw": "do references template"}


@pytest.mark.spec("S3", "Prompt Enrichment Pipeline", "S3.enrichment.2")
def test_the_default_priority_is_fifty(tmp_path: Path) -> None:
    """A plugin without get_enrichment_priority comes after 49 and before 51."""
    registry = PluginRegistry(workspace=tmp_path)
    for plugin in (Enriching("after", 51), Enriching("plain"), Enriching("before", 49)):
        registry.register_plugin(plugin, expose=True)
    assert registry.enrich_prompt("x").prompt == "x before plain after"


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.3")
def test_only_those_who_subscribe_are_asked_and_a_failing_one_is_passed_over(tmp_path: Path) -> None:
    """The user's words reach the model whatever a plugin does."""

    class Silent(Enriching):
        def subscribes_to_prompt_enrichment(self) -> bool:
            return False

    class Failing(Enriching):
        def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
            raise RuntimeError("no disk")

    registry = PluginRegistry(workspace=tmp_path)
    for plugin in (Silent("silent"), Failing("failing", 10), Enriching("good")):
        registry.register_plugin(plugin, expose=True)
    result = registry.enrich_prompt("x")
    assert result.prompt == "x good"
    assert "silent" not in result.metadata
    assert "no disk" in result.metadata["failing"]["error"]


@pytest.mark.spec("S3", "Manual Plugin Registration", "S3.manual.1")
def test_full_registration_exposes_tools_and_enriches(tmp_path: Path) -> None:
    """expose=True: schemas, executors and subscribers all have it."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Enriching("mine")
    plugin.schemas = [schema("shout")]
    plugin.executors = {"shout": lambda args: args["text"]}
    registry.register_plugin(plugin, expose=True)
    assert [declared.name for declared in registry.get_exposed_tool_schemas()] == ["shout"]
    assert "shout" in registry.get_exposed_executors()
    assert registry.get_prompt_enrichment_subscribers() == [plugin]


@pytest.mark.spec("S3", "Manual Plugin Registration", "S3.manual.2")
def test_enrichment_only_exposes_nothing(tmp_path: Path) -> None:
    """No schema, no executor, no command; its owner keeps its configuration and its shutdown."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Enriching("session")
    plugin.schemas = [schema("session_describe")]
    plugin.executors = {"session_describe": lambda _args: None}
    plugin.commands = [UserCommand("save", "Save it.")]
    plugin.initialize({"storage_path": "kept"})
    registry.register_plugin(plugin, enrichment_only=True)
    assert registry.get_exposed_tool_schemas() == []
    assert registry.get_exposed_executors() == {}
    assert registry.get_exposed_user_commands() == []
    assert registry.get_prompt_enrichment_subscribers() == [plugin]
    assert registry.enrich_prompt("x").prompt == "x session"
    registry.shutdown()
    assert plugin.told["config"] == {"storage_path": "kept"}
    assert "shutdown" not in plugin.journey
    assert registry.enrich_prompt("x").prompt == "x"


class Demanding(Documented):
    """One for two families of models."""

    def get_model_requirements(self) -> list[str]:
        return ["gemini-3-pro*", "gemini-3.5-*"]


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.3")
@pytest.mark.spec("S3", "Model Requirements", "S3.requirements.1")
@pytest.mark.parametrize(
    ("model", "fits"),
    [
        ("gemini-3-pro", True),
        ("gemini-3-pro-preview", True),
        ("gemini-3.5-flash", True),
        ("gemini-2.5-flash", False),
        ("Gemini-3-pro", False),
        (None, True),
    ],
)
def test_a_plugin_is_exposed_only_for_a_model_that_fits(
    tmp_path: Path, model: str | None, *, fits: bool
) -> None:
    """Requirements are globs; a plugin that does not fit is neither initialised nor exposed."""
    registry = PluginRegistry(model_name=model, workspace=tmp_path)
    plugin = Demanding("multimodal", "viewImage")
    registry.register_plugin(plugin)
    assert registry.expose_tool("multimodal") is fits
    assert bool(registry.get_exposed_tool_schemas()) is fits
    assert ("initialize" in plugin.journey) is fits


@pytest.mark.spec("S3", "Model Requirements", "S3.requirements.2")
@pytest.mark.spec("S3", "Model Requirements", "S3.requirements.3")
def test_a_skipped_plugin_is_reported_in_the_documented_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names plugin, model and globs; list_skipped_plugins names the plugin, once."""
    registry = PluginRegistry(model_name="gemini-2.5-flash", workspace=tmp_path)
    registry.register_plugin(Demanding("multimodal", "viewImage"))
    with caplog.at_level(logging.WARNING):
        registry.expose_tool("multimodal")
        registry.expose_tool("multimodal")
    words = "Plugin 'multimodal' skipped: model 'gemini-2.5-flash' not in ['gemini-3-pro*', 'gemini-3.5-*']"
    assert words in caplog.messages
    assert registry.list_skipped_plugins() == ["multimodal"]
    assert "multimodal" not in registry.list_exposed()


def test_an_unknown_plugin_is_named_with_those_there_are(tmp_path: Path) -> None:
    """The error says what was asked for and what could be had."""
    with pytest.raises(PluginError, match=r"No plugin 'cil'; found are .*cli"):
        PluginRegistry(workspace=tmp_path).expose_tool("cil")


@pytest.mark.spec("C3", "PluginRegistry and plugins", "C3.registry.7")
@pytest.mark.spec("S3", "User Commands vs Model Tools", "S3.commands.2")
def test_a_user_command_is_no_tool(tmp_path: Path) -> None:
    """Commands are in no schema and in no catalogue, whatever form the plugin has."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = Documented("mine", "shout")
    plugin.commands = [UserCommand("wipe", "Delete everything.")]
    ran: list[Any] = []
    plugin.executors["wipe"] = ran.append
    registry.register_plugin(plugin, expose=True)
    registry.expose_tool("todo")
    names = {declared.name for declared in registry.get_exposed_tool_schemas()}
    commands = {command.name for command in registry.get_exposed_user_commands()}
    assert {"wipe", "plan"} <= commands
    assert not commands & names
    for command in commands:
        assert registry.catalog.find(command) is None
    registry.shutdown()
