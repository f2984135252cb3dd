"""`PluginRegistry`: finds plugins, exposes them, wires them, and lets go of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS, PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.errors import PluginError
from jaato.lazy_pattern import matches_glob
from jaato.log import logger
from jaato.runtime.enrichment import enrich_prompt, enrichers
from jaato.runtime.plugins.adapter import Toolset, adapt, enriching, executors_of, requirements, schemas_of
from jaato.runtime.plugins.discovery import Modules, find, instance
from jaato.runtime.plugins.isolation import BROKEN, short_message
from jaato.runtime.plugins.lazy import Builtin, LazyPlugin, can_defer, known_declarations
from jaato.runtime.plugins.lifecycle import (
    LOADING_S,
    ByHand,
    ChangeListeners,
    PluginHost,
    PluginLoader,
    PluginSessions,
    class_name,
    is_foreign,
    refuse_same_commands,
    release,
    replace_tools,
    set_workspace,
    set_workspaces,
)
from jaato.runtime.plugins.validation import plugin_name
from jaato.runtime.plugins.workspace import PluginFiles
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

__all__ = ["PluginHost", "PluginRegistry"]
LOG = logger("registry")


class PluginRegistry:
    """The tool plugins of one runtime. Phases: discovery, exposure, operation, shutdown (once per plugin).

    `model_name` skips plugins that need another model. `plugin_dirs` are directories whose modules are plugins: only
    those named here are ever looked at; `trees` are plugins that were read already, `disabled` names those that stay
    out. `problems` says for each plugin that could not be loaded why, `noticed` what others changed around them.
    """

    def __init__(
        self,
        model_name: str | None = None,
        *,
        workspace: Path | None = None,
        plugin_dirs: Iterable[Path] = (),
        services: Mapping[str, Any] = MappingProxyType({}),
        catalog: Catalog | None = None,
        trees: Iterable[PluginFiles] = (),
        disabled: Iterable[str] = (),
        loading_s: float = LOADING_S,
    ) -> None:
        self.model_name = model_name
        self.workspace = (workspace or Path.cwd()).resolve()
        self.catalog = Catalog() if catalog is None else catalog
        self.services: dict[str, Any] = {"catalog": self.catalog, "registry": self, **services}
        self.problems: dict[str, str] = {}
        self.disabled = frozenset(disabled)
        self._maker = PluginLoader(self, loading_s)
        self.noticed = self._maker.noticed
        self.modules = Modules(
            plugin_dirs, trees, self.report, functools.partial(self._maker.call, foreign=True)
        )
        self._known: dict[str, Callable[[], Any]] = {}
        self._discovered = False
        self._own_names: dict[str, str] = {}
        self._sessions = PluginSessions(self.report)
        self.watchers = ChangeListeners()
        self._exposed: dict[str, Toolset] = {}
        self._enrichment_only: dict[str, Toolset] = {}
        self._everyone: tuple[Toolset, ...] = ()
        self._skipped: list[str] = []

    def discover(self, plugin_kind: str = "tool") -> list[str]:
        """The names of the plugins found: built in, installed, in the given directories and trees, whose modules run."""
        if plugin_kind not in ENTRY_POINT_GROUPS:
            raise PluginError(f"No plugin kind {plugin_kind!r}; there are {', '.join(ENTRY_POINT_GROUPS)}.")
        found = find(plugin_kind, self.modules, self.report, self.disabled)
        if plugin_kind == "tool":
            self._discovered = True
            self._known = {**found, **self._known}
        return list(found)

    def report(self, name: str, problem: str) -> None:
        """Note why a plugin is not used."""
        self.problems[name] = problem
        LOG.warning("Plugin '%s' %s", name, problem)

    def expose_tool(self, name: str, config: dict[str, Any] | None = None) -> bool:
        """Initialise and wire a plugin and make its tools known; False when the model does not fit its requirements.

        Raises `PluginError` for an unknown plugin and for one that fails; nothing of a failed one stays.
        """
        if self._own_names.get(name, name) in self._exposed:
            return True
        if name not in self._known and not self._discovered:
            self.discover()
        if name in self.disabled:
            raise PluginError(f"The plugin {name!r} is switched off by the setting disabled_plugins.")
        load = self._known.get(name)
        if load is None:
            raise PluginError(f"No plugin {name!r}; found are {', '.join(sorted(self._known)) or 'none'}.")
        foreign = is_foreign(load)
        try:
            waiting = self._try_lazy(load, config or {})
            plugin, own_name = self._maker.load(name, waiting, config or {}, foreign=foreign)
            self._own_names[name] = own_name
        except BROKEN as error:
            message = (
                str(error)
                if isinstance(error, PluginError)
                else f"{type(error).__name__}: {short_message(error)}"
            )
            self.report(name, f"cannot be loaded: {message}")
            raise PluginError(f"The plugin {name!r} cannot be loaded: {message}") from error
        return self._expose(plugin, own_name, config, foreign=foreign, known_as=name)

    def _try_lazy(self, load: Callable[[], Any], config: dict[str, Any]) -> Callable[[], Any]:
        """The loader, or for a built-in plugin that is not configured, and has nothing to do yet, what it declares."""
        if isinstance(load, Builtin) and not config:
            known = can_defer(load, self.workspace, self.services)
            if known is not None:
                later = LazyPlugin(load, known, functools.partial(self._load_lazy, load))
                return lambda: later
        return load

    def _load_lazy(self, load: Builtin) -> Toolset:
        """A plugin that was waiting, now that it is needed."""
        try:
            plugin = instance(load(), PluginHost(self, MappingProxyType({})))
            toolset = adapt(plugin, load.name, known_declarations(plugin, load.name))
            self._wire(toolset)
        except BROKEN as error:
            self.report(load.name, f"cannot be loaded: {type(error).__name__}: {error}")
            raise PluginError(f"The plugin {load.name!r} cannot be loaded: {error}") from error
        return toolset

    def _expose(
        self,
        plugin: Any,
        name: str,
        config: dict[str, Any] | None,
        *,
        foreign: bool = False,
        known_as: str | None = None,
    ) -> bool:
        known_as = known_as or name
        if name in self._exposed:
            other = self._exposed[name].plugin
            both = f"Two plugins are called {name!r}: {class_name(other)} and {class_name(plugin)}."
            self.report(known_as, f"is left out: {both}")
            raise PluginError(f"{both} Disable one of them.")
        begun = False
        try:
            if not self._supports_model(plugin, name, foreign=foreign):
                return False
            begun = True
            toolset = self._maker.prepare(plugin, name, config or {}, self._wire, foreign=foreign)
            refuse_same_commands(toolset, self.toolsets())
            self.catalog.add(toolset.tools)
        except BROKEN as error:
            self.report(known_as, f"cannot be exposed: {short_message(error)}")
            if begun:
                release(plugin, name, foreign=foreign)
            if isinstance(error, PluginError) and not foreign:
                raise
            message = str(error) if foreign else f"{type(error).__name__}: {short_message(error)}"
            raise PluginError(f"The plugin {name!r} cannot be exposed: {message}") from error
        self._exposed[name] = toolset
        self._list_everyone()
        self.watchers.notify()
        return True

    def _supports_model(self, plugin: Any, name: str, *, foreign: bool = False) -> bool:
        """Whether the plugin can work with the model; a warning says why not."""
        wanted = self._maker.call(name, lambda: requirements(plugin), foreign=foreign)
        model = self.model_name
        if not wanted or not model or any(matches_glob(model, glob) for glob in wanted):
            self._skipped = [skipped for skipped in self._skipped if skipped != name]
            return True
        LOG.warning("Plugin '%s' skipped: model '%s' not in %s", name, model, wanted)
        if name not in self._skipped:
            self._skipped.append(name)
        return False

    def _wire(self, toolset: Toolset) -> None:
        """Tell a plugin where it works and, if there are any, in which sessions."""
        set_workspace(toolset, self.workspace)
        self._sessions.set_sessions(toolset)

    def unexpose_tool(self, name: str) -> None:
        """Take a plugin's tools away and shut it down; an unknown name does nothing."""
        self._enrichment_only.pop(name := self._own_names.get(name, name), None)
        toolset = self._exposed.pop(name, None)
        self._list_everyone()
        if toolset is not None:
            self.catalog.remove(toolset.tools)
            release(toolset.plugin, toolset.name, foreign=toolset.foreign)
            self.watchers.notify()

    def expose_all(self, config: dict[str, dict[str, Any]] | None = None) -> list[str]:
        """Expose every plugin that was found (discovering them first where that was not done); a broken one is reported in
        `problems` and left out. Returns the names that are exposed now."""
        if not self._discovered:
            self.discover()
        for name in [known for known in self._known if known not in self.disabled]:
            try:
                self.expose_tool(name, (config or {}).get(name))
            except PluginError:
                continue  # reported where it failed
        return list(self._exposed)

    def register_plugin(self, plugin: Any, expose: bool = False, enrichment_only: bool = False) -> None:
        """Add a plugin by hand: exposed at once, for prompt enrichment alone, or known to `expose_tool` by name.

        One for enrichment alone is initialised and shut down by its owner, and may have the name of an exposed one, whose
        tools stay. Raises `PluginError` for one of no use.
        """
        name = plugin_name(plugin)
        if not expose and not enrichment_only:
            self._known[name] = ByHand(plugin)
            return
        exposed = self._exposed.get(name)
        if expose or (exposed is not None and exposed.plugin is plugin):
            self.unexpose_tool(name)
        if expose:
            self._expose(plugin, name, None)
            return
        if self._supports_model(plugin, name):
            self._enrichment_only[name] = toolset = enriching(plugin)
            self._list_everyone()
            self._wire(toolset)

    def add_toolset(self, toolset: Toolset) -> None:
        """Expose tools that belong to no plugin, such as functions of the embedding program."""
        self.catalog.add(toolset.tools)
        self._exposed[toolset.name] = toolset
        self._list_everyone()
        self.watchers.notify()

    def renew(self, name: str, old: list[Tool], new: list[Tool]) -> None:
        """Exchange tools of an exposed plugin, from any thread. Raises `PluginError` when a name is taken."""
        replace_tools(self._exposed.get(name), self.catalog, old, new)
        self.watchers.notify()

    def set_workspace_path(self, path: str | Path) -> None:
        """Set the workspace, and pass it to the plugins."""
        self.workspace = Path(path).resolve()
        set_workspaces(self.everyone(), self.workspace, self.report)

    def set_session(self, session: Any) -> None:
        """Pass a session to the plugins, also to those that are exposed later."""
        self._sessions.add(session, self.everyone())

    def forget_session(self, session: Any) -> None:
        """Remove a session; plugins that had it as the newest get the one before it."""
        self._sessions.remove(session, self.everyone())

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

    def subset(self, names: Iterable[str] | None) -> Catalog:
        """The tools of these plugins, and single ones by name; all of them for None. Raises `PluginError` for what is not
        exposed."""
        if names is None:
            return self.catalog
        toolsets: list[Toolset] = []
        tools: list[Tool] = []
        for name in names:
            toolset, found = self._exposed.get(self._own_names.get(name, name)), self.catalog.find(name)
            if toolset is not None:
                toolsets.append(toolset)
            elif found is not None:
                tools.append(found.tool)
            else:
                known = ", ".join(self._exposed)
                raise PluginError(f"The plugin {name!r} is not exposed; there are {known}, and their tools.")
        chosen = self.catalog.part(frozenset(toolset.name for toolset in toolsets))
        for toolset in toolsets:
            chosen.add(toolset.tools)
        chosen.add(tools)
        return chosen

    def get_exposed_tool_schemas(self) -> list[ToolSchema]:
        """The declarations of all exposed tools, core and discoverable."""
        return schemas_of(self.catalog)

    def get_exposed_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """A function per tool name, alias and user command, that takes the argument dict and blocks."""
        return executors_of(self._exposed.values(), self.catalog, lambda: self.workspace)

    def get_exposed_user_commands(self) -> list[UserCommand]:
        """The commands users can type."""
        return [command for toolset in self._exposed.values() for command, _ in toolset.commands.values()]

    def get_prompt_enrichment_subscribers(self) -> list[Any]:
        """The plugins that enrich prompts, in the order they are asked: lower priority first."""
        return [toolset.plugin for toolset in enrichers(self.everyone())]

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt after every subscriber has seen what the one before made of it; a failing one is passed over."""
        return enrich_prompt(prompt, enrichers(self.everyone()), self.workspace)

    def everyone(self) -> tuple[Toolset, ...]:
        """The records of all plugins that were asked in, those that only enrich prompts too."""
        return self._everyone

    def _list_everyone(self) -> None:
        """Bring `everyone` up to date: it is read for each turn and each call."""
        self._everyone = (*self._exposed.values(), *self._enrichment_only.values())

    def shutdown(self) -> None:
        """Let go of every plugin, each once."""
        self.catalog.remove([tool for toolset in self._exposed.values() for tool in toolset.tools])
        for name in [*self._exposed, *self._enrichment_only]:
            self.unexpose_tool(name)
        if (sandbox := self.services.get("sandbox")) is not None:
            sandbox.close()
