"""What comes before the blocks of architecture and design-philosophy about plugins, and what must hold after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any  # the documented spelling

from tests.compat.stage import Names, Stage

from jaato.abc.compactor import GCConfig
from jaato.abc.plugin import PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.providers.scripted import ScriptedProvider, Step
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry


class Simple:
    """A documented plugin with a tool, and a mark it leaves on prompts."""

    def __init__(self, name: str, tool: str | None = None, priority: int = 50) -> None:
        self.name = name
        self.tool = tool
        self.priority = priority

    def get_tool_schemas(self) -> list[ToolSchema]:
        return [ToolSchema(self.tool, "Do it.")] if self.tool else []

    def get_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {self.tool: lambda args: args} if self.tool else {}

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def get_system_instructions(self) -> str | None:
        return None

    def get_auto_approved_tools(self) -> list[str]:
        return []

    def get_user_commands(self) -> list[UserCommand]:
        return []

    def subscribes_to_prompt_enrichment(self) -> bool:
        return True

    def get_enrichment_priority(self) -> int:
        return self.priority

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        return PromptEnrichmentResult(f"{prompt} +{self.name}", {"by": self.name})


def enrichment(stage: Stage) -> Iterator[Names]:
    """The printed class is asked between a plugin of priority 20 and one of 60, and gives what it made."""
    names: Names = {"PromptEnrichmentResult": PromptEnrichmentResult, "enriched": "annotated"}
    yield names
    printed = names["TemplatePlugin"]
    template = type("Template", (printed, Simple), {})("template")
    registry = PluginRegistry(workspace=stage.path)
    registry.register_plugin(late := Simple("multimodal", priority=60), enrichment_only=True)
    registry.register_plugin(template, enrichment_only=True)
    registry.register_plugin(early := Simple("references", priority=20), enrichment_only=True)
    assert registry.get_prompt_enrichment_subscribers() == [early, template, late]
    assert template.enrich_prompt("x").prompt == "annotated"


def handmade_plugins(stage: Stage) -> Iterator[Names]:
    """Both take part in enrichment; only the first one's tool is exposed."""
    registry = PluginRegistry(workspace=stage.path)
    mine, session = Simple("mine", "do_it"), Simple("session", "session_describe", priority=90)
    yield {"registry": registry, "my_plugin": mine, "session_plugin": session}
    assert [schema.name for schema in registry.get_exposed_tool_schemas()] == ["do_it"]
    assert list(registry.get_exposed_executors()) == ["do_it"]
    assert registry.get_prompt_enrichment_subscribers() == [mine, session]
    assert registry.enrich_prompt("go").prompt == "go +mine +session"
    registry.shutdown()


def typing_list(stage: Stage) -> Iterator[Names]:
    """The printed class as a plugin is skipped for an older model and exposed for a newer one."""
    names: Names = {"List": list}
    yield names
    printed = names["MultimodalPlugin"]
    for model, exposed in [("gemini-2.5-flash", []), ("gemini-3-pro-preview", ["multimodal"])]:
        registry = PluginRegistry(model, workspace=stage.path)
        registry.register_plugin(type("Multimodal", (printed, Simple), {})("multimodal"), expose=True)
        assert registry.list_exposed() == exposed


def multimodal(_stage: Stage) -> Iterator[Names]:
    """The plugin is skipped, and the warning says so in the printed words."""
    names: Names = {"PluginRegistry": PluginRegistry}
    yield names
    registry = names["registry"]
    assert registry.list_skipped_plugins() == ["multimodal"]
    assert registry.get_exposed_tool_schemas() == []


def gc_client(stage: Stage) -> Iterator[Names]:
    """The client uses what was loaded, at the threshold that was given."""
    client = JaatoClient(state_dir=stage.path / "state")
    client.connect(model="script", provider=ScriptedProvider([]), workspace=stage.path)
    registry = PluginRegistry(workspace=stage.path)
    client.configure_tools(registry)
    names: Names = {"client": client, "GCConfig": GCConfig}
    yield names
    assert "gc_truncate" in names["plugins"]
    compaction = client.get_session().live.compaction.setup
    assert compaction is not None
    assert compaction.strategy is names["gc_plugin"]
    assert compaction.config == GCConfig(threshold_percent=75.0)
    client.close()
    registry.shutdown()


def session_client(stage: Stage) -> Iterator[Names]:
    """The client's session is saved by what was made, where and when the settings say."""
    client = JaatoClient(state_dir=stage.path / "state")
    client.connect(model="script", provider=ScriptedProvider([Step(text="hello")]), workspace=stage.path)
    registry = PluginRegistry(workspace=stage.path)
    client.configure_tools(registry)
    names: Names = {"client": client}
    yield names
    client.send_message("hi")
    client.close()
    [saved] = names["session_plugin"].list_sessions()
    assert [path.stem for path in (stage.path / names["config"].storage_path).glob("*.json")] == [
        saved.session_id
    ]
    registry.shutdown()


def gc_config(_stage: Stage) -> Iterator[Names]:
    """The printed values are the defaults."""
    names: Names = {"GCConfig": GCConfig}
    yield names
    assert names["gc_config"] == GCConfig()


PRELUDES = {
    prelude.__name__: prelude
    for prelude in (
        enrichment,
        gc_client,
        session_client,
        gc_config,
        handmade_plugins,
        typing_list,
        multimodal,
    )
}
