"""`PluginRegistry`: finds plugins, exposes them, wires them, and lets go of them."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS, Plugin, PromptEnrichmentResult, ToolSchema, UserCommand
from jaato.errors import PluginError
from jaato.log import logger
from jaato.plugins import BUILTIN
from jaato.runtime.adapt import Toolset, adapt, call_optional, optional, plugin_name, requirements
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Rename, Tool

LOG = logger("registry")


class PluginHost:
    """What a native plugin is told at its construction."""

    def __init__(self, registry: PluginRegistry, config: Mapping[str, Any]) -> None:
        self._registry = registry
        self.config = config

    @property
    def workspace(self) -> Path:
        """The directory the agent works in."""
        return self._registry.workspace

    def service(self, name: str) -> Any:
        """Something of the runtime by name; raises KeyError."""
        return self._registry.services[name]


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
    ) -> None:
        self.model_name = model_name
        self.workspace = (workspace or Path.cwd()).resolve()
        self.catalog = Catalog()
        self.services: dict[str, Any] = {"catalog": self.catalog, "registry": self, **services}
        self.problems: dict[str, str] = {}
        self._plugin_dirs = list(plugin_dirs)
        self._known: dict[str, Callable[[], Any]] = {}
        self._exposed: dict[str, Toolset] = {}
        self._enrichment_only: dict[str, Toolset] = {}
        self._skipped: list[str] = []

    # --- discovery ---------------------------------------------------------------------------------------------

    def discover(self, plugin_kind: str = "tool") -> list[str]:
        """Find plugins: the built-in ones, installed entry points, the given directories. Nothing is run yet but
        the modules in those directories; returns the names found."""
        if plugin_kind not in ENTRY_POINT_GROUPS:
            raise PluginError(f"No plugin kind {plugin_kind!r}; there are {', '.join(ENTRY_POINT_GROUPS)}.")
        found: dict[str, Callable[[], Any]] = {}
        if plugin_kind == "tool":
            found |= {name: functools.partial(load_object, path) for name, path in BUILTIN.items()}
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINT_GROUPS[plugin_kind]):
            found.setdefault(point.name, point.load)
        for directory in self._plugin_dirs:
            found |= {k: v for k, v in self._in_directory(directory, plugin_kind).items() if k not in found}
        if plugin_kind == "tool":
            self._known |= {name: load for name, load in found.items() if name not in self._known}
        return list(found)

    def _in_directory(self, directory: Path, kind: str) -> dict[str, Callable[[], Any]]:
        found: dict[str, Callable[[], Any]] = {}
        if not directory.is_dir():
            return found
        for path in sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")]):
            name = path.parent.name if path.name == "__init__.py" else path.stem
            try:
                module = load_module(path, name)
            except Exception as error:  # noqa: BLE001 a plugin that cannot be imported must not take others with it
                self._report(name, f"cannot be imported: {type(error).__name__}: {error}")
                continue
            if getattr(module, "PLUGIN_KIND", None) == kind:
                found[name] = functools.partial(identity, module)
        return found

    def _report(self, name: str, problem: str) -> None:
        self.problems[name] = problem
        LOG.warning("Plugin '%s' %s", name, problem)

    # --- exposure ----------------------------------------------------------------------------------------------

    def expose_tool(self, name: str, config: dict[str, Any] | None = None) -> bool:
        """Initialise and wire a plugin and make its tools known; False when the model does not fit its requirements.

        Raises `PluginError` for an unknown plugin and for one that fails; nothing of a failed one stays.
        """
        if name in self._exposed:
            return True
        if not self._known:
            self.discover()
        load = self._known.get(name)
        if load is None:
            raise PluginError(f"No plugin {name!r}; found are {', '.join(sorted(self._known)) or 'none'}.")
        try:
            plugin = self._build(load(), config or {})
        except Exception as error:
            self._report(name, f"cannot be loaded: {type(error).__name__}: {error}")
            raise PluginError(
                f"The plugin {name!r} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        return self._expose(plugin, config)

    def _build(self, found: Any, config: dict[str, Any]) -> Any:
        """A plugin object from what a loader gave: an instance, a class, a factory or a module."""
        if isinstance(found, ModuleType):
            found = getattr(found, "create_plugin", None) or own_class(found)
        if isinstance(found, type) and issubclass(found, Plugin):
            return found(PluginHost(self, MappingProxyType(config)))
        return found() if callable(found) else found

    def _expose(self, plugin: Any, config: dict[str, Any] | None, *, enrichment_only: bool = False) -> bool:
        name = plugin_name(plugin)
        wanted = requirements(plugin)
        if (
            wanted
            and self.model_name
            and not any(fnmatch.fnmatchcase(self.model_name, glob) for glob in wanted)
        ):
            LOG.warning("Plugin '%s' skipped: model '%s' not in %s", name, self.model_name, wanted)
            if name not in self._skipped:
                self._skipped.append(name)
            return False
        try:
            initialize = optional(plugin, "initialize")
            if initialize:
                initialize(config or {})
            wire = optional(plugin, "set_plugin_registry")
            if wire:
                wire(self)
            toolset = adapt(plugin)
            if not enrichment_only:
                self.catalog.add(toolset.tools)
        except Exception as error:
            self._report(name, f"cannot be exposed: {error}")
            release(plugin)
            raise (
                error
                if isinstance(error, PluginError)
                else PluginError(f"The plugin {name!r} cannot be exposed: {type(error).__name__}: {error}")
            ) from error
        if place := toolset.wiring.get("set_workspace_path"):
            place(str(self.workspace))
        (self._enrichment_only if enrichment_only else self._exposed)[name] = toolset
        return True

    def unexpose_tool(self, name: str) -> None:
        """Take a plugin's tools away and shut it down; an unknown name does nothing."""
        toolset = self._exposed.pop(name, None) or self._enrichment_only.pop(name, None)
        if toolset is not None:
            self.catalog.remove(toolset.tools)
            release(toolset.plugin)

    def expose_all(self, config: dict[str, dict[str, Any]] | None = None) -> list[str]:
        """Expose every plugin that was found (looking for them first if nobody has); a broken one is reported in
        `problems` and left out. Returns the names that are exposed now."""
        if not self._known:
            self.discover()
        for name in self._known:
            try:
                self.expose_tool(name, (config or {}).get(name))
            except PluginError:
                continue  # reported where it failed
        return list(self._exposed)

    def register_plugin(self, plugin: Any, expose: bool = False, enrichment_only: bool = False) -> None:
        """Add a plugin by hand: exposed at once, for prompt enrichment alone, or known to `expose_tool` by name."""
        name = plugin_name(plugin)
        if expose or enrichment_only:
            self.unexpose_tool(name)
            self._expose(plugin, None, enrichment_only=enrichment_only and not expose)
        else:
            self._known[name] = lambda: plugin

    def add_toolset(self, toolset: Toolset) -> None:
        """Expose tools that belong to no plugin, such as functions of the embedding program."""
        self.catalog.add(toolset.tools)
        self._exposed[toolset.name] = toolset

    def set_workspace_path(self, path: str | Path) -> None:
        """Work in this directory from now on; plugins that care are told."""
        self.workspace = Path(path).resolve()
        for toolset in [*self._exposed.values(), *self._enrichment_only.values()]:
            if place := toolset.wiring.get("set_workspace_path"):
                place(str(self.workspace))

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

    def get_exposed_tool_schemas(self) -> list[ToolSchema]:
        """The declarations of all exposed tools, core and discoverable."""
        return [
            ToolSchema(t.name, t.spec.description, t.spec.parameters, t.spec.category, t.spec.discoverability)
            for t in self.catalog
        ]

    def get_exposed_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """A function per tool name, alias and user command, that takes the argument dict and blocks."""
        executors: dict[str, Callable[[dict[str, Any]], Any]] = {}
        for toolset in self._exposed.values():
            executors |= {name: run for name, (_, run) in toolset.commands.items() if run is not None}
            for tool in toolset.tools:
                executors |= {alias: blocking(tool, rename) for alias, rename in tool.aliases.items()}
        return executors | {tool.name: blocking(tool, {}) for tool in self.catalog}

    def get_exposed_user_commands(self) -> list[UserCommand]:
        """The commands users can type."""
        return [command for toolset in self._exposed.values() for command, _ in toolset.commands.values()]

    def get_prompt_enrichment_subscribers(self) -> list[Any]:
        """The plugins that enrich prompts, in the order they are asked: lower priority first."""
        return [toolset.plugin for toolset in self._enrichers()]

    def _enrichers(self) -> list[Toolset]:
        everyone = [*self._exposed.values(), *self._enrichment_only.values()]
        return sorted((t for t in everyone if t.enrich is not None), key=lambda t: t.priority)

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt after every subscriber has seen what the one before made of it; a failing one is passed over."""
        metadata: dict[str, Any] = {}
        for toolset in self._enrichers():
            assert toolset.enrich is not None
            try:
                result = toolset.enrich(prompt)
                prompt, metadata[toolset.name] = str(result.prompt), dict(result.metadata)
            except Exception as error:  # noqa: BLE001 the user's words must reach the model whatever a plugin does
                LOG.warning("Plugin '%s' could not enrich the prompt: %s", toolset.name, error)
                metadata[toolset.name] = {"error": str(error)}
        return PromptEnrichmentResult(prompt, metadata)

    def shutdown(self) -> None:
        """Let go of every plugin, each once."""
        for name in [*self._exposed, *self._enrichment_only]:
            self.unexpose_tool(name)


def release(plugin: Any) -> None:
    """Shut a plugin down; one that fails in doing so harms nobody else."""
    try:
        call_optional(plugin, "shutdown")
    except Exception as error:  # noqa: BLE001 the others still have to be shut down
        LOG.warning("Plugin '%s' failed to shut down: %s", getattr(plugin, "name", plugin), error)


def blocking(tool: Tool, rename: Rename) -> Callable[[dict[str, Any]], Any]:
    """The tool as a plain function of its argument dict."""

    def execute(arguments: dict[str, Any]) -> Any:
        from jaato.tools.call import CURRENT

        renamed = {rename.get(key, key): value for key, value in arguments.items()}
        call = CURRENT.get() or Call(id="", name=tool.name, arguments=renamed)
        value = tool.run(renamed, call)
        if inspect.iscoroutine(value):
            from jaato.runtime.portal import PORTAL

            return PORTAL.call(value)
        return value

    return execute


def identity(module: ModuleType) -> ModuleType:
    """A module that is loaded already."""
    return module


def load_object(path: str) -> Any:
    """The object at `module:name`."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_module(path: Path, name: str) -> ModuleType:
    """A module from a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"jaato_plugin_{name}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_class(module: ModuleType) -> type:
    """The one plugin class a module defines; raises `PluginError` when there is none or more than one."""
    mine = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    plugins = [c for c in mine if issubclass(c, Plugin) or callable(getattr(c, "get_tool_schemas", None))]
    if len(plugins) != 1:
        raise PluginError(
            f"{module.__name__} defines {len(plugins)} plugin classes; define create_plugin() too."
        )
    return plugins[0]
