"""Built-in plugins as a program makes them by hand: `CLIToolPlugin()`, with the methods of the documented protocol."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from jaato.abc.plugin import PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.errors import ConfigError
from jaato.plugins import BUILTIN
from jaato.plugins.subagent.plugin import SubagentPlugin as NativeSubagentPlugin
from jaato.runtime.plugins.adapter import Toolset, ToolsetSource, adapt, executors_of, schemas_of
from jaato.runtime.plugins.discovery import instance
from jaato.runtime.plugins.lazy import Builtin, load_manifests
from jaato.runtime.plugins.lifecycle import PluginHost, release
from jaato.runtime.plugins.registry import PluginRegistry


class DocumentedMethods(ABC):
    """The methods of `ToolPlugin` over the record of a plugin."""

    name: ClassVar[str] = ""

    @abstractmethod
    def _record(self) -> Toolset:
        """The record of the plugin."""

    @abstractmethod
    def _workspace(self) -> Path:
        """The directory its functions work in."""

    def get_tool_schemas(self) -> list[ToolSchema]:
        """The declarations of its tools."""
        return schemas_of(self._record().tools)

    def get_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """A function per tool name, alias and user command, that takes the argument dict and blocks."""
        record = self._record()
        return executors_of([record], record.tools, self._workspace)

    def get_system_instructions(self) -> str | None:
        """What the model must know to use the tools together; None for nothing."""
        return self._record().instructions or None

    def get_auto_approved_tools(self) -> list[str]:
        """The tools that run without asking by default: those that only read."""
        return [tool.name for tool in self._record().tools if tool.spec.access == "read"]

    def get_user_commands(self) -> list[UserCommand]:
        """The commands a user can type."""
        return [command for command, _ in self._record().commands.values()]


class StandalonePlugin(DocumentedMethods, ToolsetSource):
    """A built-in plugin made without a host. It works in the current directory, or in the workspace of its registry.

    Each of its tools is a method too, by any of its names: `FileEditPlugin().readFile("a.txt")`. A registry that
    exposes it has the same plugin that `expose_tool` would have made.
    """

    positional: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The parameters of tools in the order they are documented, where that is not the tool's own."""

    beside: ClassVar[tuple[str, ...]] = ()
    """The plugins whose tools it uses, exposed with it where it has a registry of its own."""

    def __init__(self) -> None:
        self._config: dict[str, Any] = {}
        self._place = Path.cwd()
        self._own: PluginRegistry | None = None
        self._registry: PluginRegistry | None = None
        self._made: Toolset | None = None
        self._released_by_registry = False
        self._lock = threading.RLock()

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Use this configuration from now on; what it does not say stays as it is. Raises `ConfigError` or `PluginError`
        for one that cannot be used; the one before stays."""
        if not isinstance(config, dict | None):
            raise ConfigError(f"The configuration of {self.name} is a {type(config).__name__}; pass a dict.")
        if config:
            with self._lock:
                before, self._config = self._config, self._config | config
                self._release()
                try:
                    self._record()
                except BaseException:
                    self._config = before
                    raise

    def shutdown(self) -> None:
        """Release everything it started."""
        with self._lock:
            self._release()

    def set_plugin_registry(self, registry: PluginRegistry) -> None:
        """Work where this registry does, with its services."""
        with self._lock:
            self._release()
            self._registry = registry

    def set_workspace_path(self, path: str | Path) -> None:
        """Work in this directory; one that a registry exposes works where that does."""
        with self._lock:
            self._place = Path(path)
            if self._own is not None:
                self._own.set_workspace_path(path)

    def get_model_requirements(self) -> list[str]:
        """The globs one of which the model's name must match; empty for any model."""
        known = load_manifests().get(self.name)
        return list(known.requirements) if known is not None else []

    def subscribes_to_prompt_enrichment(self) -> bool:
        """Whether it adds something to prompts."""
        return self._record().enrich is not None

    def get_enrichment_priority(self) -> int:
        """When it is asked: lower numbers first."""
        return self._record().enrichment.priority

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt with what the plugin adds to it."""
        enrich = self._record().enrich
        return enrich(prompt) if enrich is not None else PromptEnrichmentResult(prompt)

    def toolset(self) -> Toolset:
        """The plugin's record, for a registry that exposes it and shuts it down."""
        with self._lock:
            record = self._record()
            self._released_by_registry = True
            return record

    def _record(self) -> Toolset:
        with self._lock:
            if self._made is None:
                own: PluginRegistry | None = None
                registry = self._registry
                if registry is None:
                    registry = own = PluginRegistry(workspace=self._place)
                host = PluginHost(registry, MappingProxyType(self._config))
                self._made = adapt(instance(Builtin(self.name, BUILTIN[self.name])(), host))
                self._released_by_registry = own is not None
                if own is not None:
                    own.add_toolset(self._made)
                    for name in self.beside:
                        own.expose_tool(name)
                    self._own = self._registry = own
            return self._made

    def _workspace(self) -> Path:
        return self._registry.workspace if self._registry is not None else self._place

    def _release(self) -> None:
        own, made, self._own, self._made = self._own, self._made, None, None
        if own is not None:
            self._registry = None
            own.shutdown()
        elif made is not None and not self._released_by_registry:
            release(made.plugin, self.name)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for tool in self._record().tools:
                if name == tool.name or name in tool.aliases:
                    order = self.positional.get(name) or tuple(tool.spec.parameters.get("properties", ()))
                    return make_method(name, self.get_executors()[name], order)
        raise AttributeError(f"{type(self).__name__} has no attribute, and no tool, {name!r}.")


def make_method(
    name: str, executor: Callable[[dict[str, Any]], Any], order: tuple[str, ...]
) -> Callable[..., Any]:
    """A tool as a function of its parameters, by position or by name."""

    def call(*values: Any, **arguments: Any) -> Any:
        if len(values) > len(order):
            raise TypeError(f"{name}() takes at most {len(order)} arguments: {', '.join(order)}.")
        given = dict(zip(order, values, strict=False))
        if twice := given.keys() & arguments.keys():
            raise TypeError(f"{name}() got two values for {', '.join(sorted(twice))}.")
        return executor(given | arguments)

    return call


class CLIToolPlugin(StandalonePlugin):
    """Shell commands."""

    name = "cli"


class EnvironmentPlugin(StandalonePlugin):
    """What the machine and the workspace are."""

    name = "environment"


class IntrospectionPlugin(StandalonePlugin):
    """Discovery of tools."""

    name = "introspection"


class TodoPlugin(StandalonePlugin):
    """Plans in steps."""

    name = "todo"


class MCPToolPlugin(StandalonePlugin):
    """Tools of MCP servers."""

    name = "mcp"


class FileEditPlugin(StandalonePlugin):
    """Files: read, write, edit, move, undo."""

    name = "file_edit"
    positional: ClassVar = {"updateFile": ("path", "new_content")}


class BackgroundPlugin(StandalonePlugin):
    """The tools of its registry, run in the background."""

    name = "background"
    positional: ClassVar = {"startBackgroundTask": ("plugin", "tool", "args")}


class ClarificationPlugin(StandalonePlugin):
    """Questions to the user, by a `ClarificationChannel` where there is no session."""

    name = "clarification"

    def __init__(self, channel: Any = None) -> None:
        super().__init__()
        self._config = {} if channel is None else {"channel": channel}


class ReferencesPlugin(StandalonePlugin):
    """Reference documents, and the files that a prompt names."""

    name = "references"


class TemplatePlugin(StandalonePlugin):
    """Templates, written and found in prompts."""

    name = "template"
    beside = ("file_edit",)


class MultimodalPlugin(StandalonePlugin):
    """Images, for models that can see."""

    name = "multimodal"

    @property
    def MODEL_REQUIREMENTS(self) -> list[str]:
        """As `get_model_requirements`."""
        return self.get_model_requirements()


class MemoryPlugin(StandalonePlugin):
    """Notes that last."""

    name = "memory"


class SlashCommandPlugin(StandalonePlugin):
    """Stored prompts."""

    name = "slash_command"


class WaypointPlugin(StandalonePlugin):
    """States of the workspace to come back to."""

    name = "waypoint"


class SubagentPlugin(DocumentedMethods, NativeSubagentPlugin):
    """Tasks for other agents, with the methods of the documented protocol."""

    name = "subagent"

    def _record(self) -> Toolset:
        return adapt(self)

    def _workspace(self) -> Path:
        return self.host.workspace

    @property
    def spawn_subagent(self) -> Callable[..., Any]:
        """As the tool `delegate`, under its other name."""
        return make_method(
            "spawn_subagent", self.get_executors()["spawn_subagent"], ("task", "name", "profile")
        )
