"""`PluginRegistry`: finds plugins, exposes them, wires them, and lets go of them."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS, PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.errors import PluginError
from jaato.log import logger
from jaato.runtime.adapt import Toolset, adapt, enriching, optional, plugin_name, requirements
from jaato.runtime.discovery import BROKEN, find, instance
from jaato.runtime.enrichment import enriched, enriched_apart, enrichers
from jaato.runtime.executors import executors_of
from jaato.runtime.host import PluginHost
from jaato.runtime.later import Builtin, Later, can_wait
from jaato.runtime.wiring import Sessions, place, release
from jaato.tools.catalog import Catalog

__all__ = ["PluginHost", "PluginRegistry"]
LOG = logger("registry")


class PluginRegistry:
    """The tool plugins of one runtime. Phases: discovery, exposure, operation, shutdown (once per plugin).

    `model_name` skips plugins that need another model. `plugin_dirs` are directories whose modules are plugins: only
    those named here are ever looked at. `problems` says for each plugin that could not be loaded why.
    """

    def __init__(
        self,
        model_name: str | None = None,
        *,
        workspace: Path | None = None,
        plugin_dirs: Iterable[Path] = (),
        services: Mapping[str, Any] = MappingProxyType({}),
        catalog: Catalog | None = None,
    ) -> None:
        self.model_name = model_name
        self.workspace = (workspace or Path.cwd()).resolve()
        self.catalog = Catalog() if catalog is None else catalog
        self.services: dict[str, Any] = {"catalog": self.catalog, "registry": self, **services}
        self.problems: dict[str, str] = {}
        self._plugin_dirs = list(plugin_dirs)
        self._known: dict[str, Callable[[], Any]] = {}
        self._discovered = False
        self._own_names: dict[str, str] = {}
        self._sessions = Sessions(self._report)
        self._exposed: dict[str, Toolset] = {}
        self._enrichment_only: dict[str, Toolset] = {}
        self._skipped: list[str] = []

    # --- discovery ---------------------------------------------------------------------------------------------

    def discover(self, plugin_kind: str = "tool") -> list[str]:
        """Find plugins: the built-in ones, installed entry points, the given directories. Nothing is run yet but
        the modules in those directories; returns the names found."""
        if plugin_kind not in ENTRY_POINT_GROUPS:
            raise PluginError(f"No plugin kind {plugin_kind!r}; there are {', '.join(ENTRY_POINT_GROUPS)}.")
        found = find(plugin_kind, self._plugin_dirs, self._report)
        if plugin_kind == "tool":
            self._discovered = True
            self._known = {**found, **self._known}
        return list(found)

    def _report(self, name: str, problem: str) -> None:
        self.problems[name] = problem
        LOG.warning("Plugin '%s' %s", name, problem)

    # --- exposure ----------------------------------------------------------------------------------------------

    def expose_tool(self, name: str, config: dict[str, Any] | None = None) -> bool:
        """Initialise and wire a plugin and make its tools known; False when the model does not fit its requirements.

        Raises `PluginError` for an unknown plugin and for one that fails; nothing of a failed one stays.
        """
        if self._own_names.get(name, name) in self._exposed:
            return True
        if name not in self._known and not self._discovered:
            self.discover()
        load = self._known.get(name)
        if load is None:
            raise PluginError(f"No plugin {name!r}; found are {', '.join(sorted(self._known)) or 'none'}.")
        try:
            plugin = self._loaded(load, config or {})
            self._own_names[name] = plugin_name(plugin)
        except BROKEN as error:
            self._report(name, f"cannot be loaded: {type(error).__name__}: {error}")
            raise PluginError(
                f"The plugin {name!r} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        return self._expose(plugin, config)

    def _loaded(self, load: Callable[[], Any], config: dict[str, Any]) -> Any:
        """The plugin; a built-in one that is not configured, and has nothing to do yet, only as what it declares."""
        settings = self.services.get("settings")
        if isinstance(load, Builtin) and not config and (known := can_wait(load, self.workspace, settings)):
            return Later(load, known, functools.partial(self._made, load))
        return instance(load(), PluginHost(self, MappingProxyType(config)))

    def _made(self, load: Builtin) -> Toolset:
        """A plugin that was waiting, now that it is needed."""
        try:
            toolset = adapt(instance(load(), PluginHost(self, MappingProxyType({}))))
            self._wire(toolset)
        except BROKEN as error:
            self._report(load.name, f"cannot be loaded: {type(error).__name__}: {error}")
            raise PluginError(f"The plugin {load.name!r} cannot be loaded: {error}") from error
        return toolset

    def _expose(self, plugin: Any, config: dict[str, Any] | None) -> bool:
        name = plugin_name(plugin)
        if name in self._exposed or name in self._enrichment_only:
            other = (self._exposed.get(name) or self._enrichment_only[name]).plugin
            self._report(name, "is the name of two plugins")
            raise PluginError(
                f"Two plugins are called {name!r}: {described(other)} and {described(plugin)}. Disable one of them."
            )
        toolset: Toolset | None = None
        begun = False
        try:
            if not self._suits(plugin, name):
                return False
            begun = True
            initialize = optional(plugin, "initialize")
            if initialize:
                initialize(config or {})
            wire = optional(plugin, "set_plugin_registry")
            if wire:
                wire(self)
            toolset = plugin.toolset() if isinstance(plugin, Later) else adapt(plugin)
            self.catalog.add(toolset.tools)
            self._wire(toolset)
        except BROKEN as error:
            if toolset is not None:
                self.catalog.remove(toolset.tools)
            self._report(name, f"cannot be exposed: {error}")
            if begun:
                release(plugin)
            raise (
                error
                if isinstance(error, PluginError)
                else PluginError(f"The plugin {name!r} cannot be exposed: {type(error).__name__}: {error}")
            ) from error
        self._exposed[name] = toolset
        return True

    def _suits(self, plugin: Any, name: str) -> bool:
        """Whether the plugin can work with the model; a warning says why not."""
        wanted = requirements(plugin)
        model = self.model_name
        if not wanted or not model or any(fnmatch.fnmatchcase(model, glob) for glob in wanted):
            self._skipped = [skipped for skipped in self._skipped if skipped != name]
            return True
        LOG.warning("Plugin '%s' skipped: model '%s' not in %s", name, model, wanted)
        if name not in self._skipped:
            self._skipped.append(name)
        return False

    def _wire(self, toolset: Toolset) -> None:
        """Tell a plugin where it works and, if there are any, in which sessions."""
        place(toolset, self.workspace)
        self._sessions.introduce(toolset)

    def unexpose_tool(self, name: str) -> None:
        """Take a plugin's tools away and shut it down; an unknown name does nothing."""
        name = self._own_names.get(name, name)
        self._enrichment_only.pop(name, None)
        toolset = self._exposed.pop(name, None)
        if toolset is not None:
            self.catalog.remove(toolset.tools)
            release(toolset.plugin)

    def expose_all(self, config: dict[str, dict[str, Any]] | None = None) -> list[str]:
        """Expose every plugin that was found (looking for them first if nobody has); a broken one is reported in
        `problems` and left out. Returns the names that are exposed now."""
        if not self._discovered:
            self.discover()
        for name in list(self._known):
            try:
                self.expose_tool(name, (config or {}).get(name))
            except PluginError:
                continue  # reported where it failed
        return list(self._exposed)

    def register_plugin(self, plugin: Any, expose: bool = False, enrichment_only: bool = False) -> None:
        """Add a plugin by hand: exposed at once, for prompt enrichment alone, or known to `expose_tool` by name.

        One that is there for enrichment alone belongs to somebody else, who initialises it and shuts it down.
        Raises `PluginError` for a plugin that cannot be used.
        """
        name = plugin_name(plugin)
        if not expose and not enrichment_only:
            self._known[name] = lambda: plugin
            return
        self.unexpose_tool(name)
        if expose:
            self._expose(plugin, None)
            return
        if self._suits(plugin, name):
            self._enrichment_only[name] = toolset = enriching(plugin)
            self._wire(toolset)

    def add_toolset(self, toolset: Toolset) -> None:
        """Expose tools that belong to no plugin, such as functions of the embedding program."""
        self.catalog.add(toolset.tools)
        self._exposed[toolset.name] = toolset

    def set_workspace_path(self, path: str | Path) -> None:
        """Work in this directory from now on; plugins that care are told."""
        self.workspace = Path(path).resolve()
        for toolset in self._everyone():
            place(toolset, self.workspace)

    def set_session(self, session: Any) -> None:
        """Tell the plugins that care in which session they work; one exposed later is told too, of each that lives."""
        self._sessions.add(session, self._everyone())

    def forget_session(self, session: Any) -> None:
        """A session has ended; plugins that knew it as the newest are told of the one before it, if that lives."""
        self._sessions.remove(session, self._everyone())

    # --- operation ---------------------------------------------------------------------------------------------

    def list_skipped_plugins(self) -> list[str]:
        """The plugins left out because they need another model."""
        return list(self._skipped)

    def list_exposed(self) -> list[str]:
        """The names of the exposed plugins."""
        return list(self._exposed)

    def toolset(self, name: str) -> Toolset | None:
        """The record of an exposed plugin."""
        return self._exposed.get(name)

    def toolsets(self) -> list[Toolset]:
        """The records of all exposed plugins."""
        return list(self._exposed.values())

    def subset(self, plugins: Iterable[str] | None) -> Catalog:
        """The tools of these plugins only; all of them for None. Raises `PluginError` for one that is not exposed."""
        if plugins is None:
            return self.catalog
        chosen = Catalog(self.catalog.meaning, self.catalog.index_folder)
        for name in plugins:
            toolset = self._exposed.get(self._own_names.get(name, name))
            if toolset is None:
                raise PluginError(
                    f"The plugin {name!r} is not exposed; there are {', '.join(self._exposed)}."
                )
            chosen.add(toolset.tools)
        return chosen

    def get_exposed_tool_schemas(self) -> list[ToolSchema]:
        """The declarations of all exposed tools, core and discoverable."""
        return [
            ToolSchema(t.name, t.spec.description, t.spec.parameters, t.spec.category, t.spec.discoverability)
            for t in self.catalog
        ]

    def get_exposed_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """A function per tool name, alias and user command, that takes the argument dict and blocks."""
        return executors_of(self._exposed.values(), self.catalog)

    def get_exposed_user_commands(self) -> list[UserCommand]:
        """The commands users can type."""
        return [command for toolset in self._exposed.values() for command, _ in toolset.commands.values()]

    def get_prompt_enrichment_subscribers(self) -> list[Any]:
        """The plugins that enrich prompts, in the order they are asked: lower priority first."""
        return [toolset.plugin for toolset in enrichers(self._everyone())]

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt after every subscriber has seen what the one before made of it; a failing one is passed over."""
        return enriched(prompt, enrichers(self._everyone()), self.workspace)

    async def enrich_prompt_apart(self, prompt: str) -> str:
        """The same for a session: off the loop, and within a time."""
        return await enriched_apart(prompt, enrichers(self._everyone()), self.workspace)

    def _everyone(self) -> list[Toolset]:
        return [*self._exposed.values(), *self._enrichment_only.values()]

    def shutdown(self) -> None:
        """Let go of every plugin, each once."""
        for name in [*self._exposed, *self._enrichment_only]:
            self.unexpose_tool(name)


def described(plugin: Any) -> str:
    """A plugin by its class."""
    if isinstance(plugin, Later):
        return plugin.path.replace(":", ".")
    return f"{type(plugin).__module__}.{type(plugin).__qualname__}"
