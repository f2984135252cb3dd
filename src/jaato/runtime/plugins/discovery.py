"""Where plugins come from: those built in, installed entry points, directories of modules; and the ones chosen by name."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.abc.plugin import ENTRY_POINT_GROUPS, Host, Plugin
from jaato.errors import PluginError
from jaato.plugins import BUILTIN
from jaato.runtime.plugins.isolation import BROKEN, run_bounded
from jaato.runtime.plugins.lazy import Builtin
from jaato.runtime.plugins.workspace import PluginFiles

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Loader = Callable[[], Any]


class Modules:
    """The modules and packages of some directories, and plugins that were read already, each run once, when first
    asked for, by `run(name, load)`; `report(name, problem)` is called for those that cannot be."""

    def __init__(
        self,
        directories: Iterable[Path],
        trees: Iterable[PluginFiles],
        report: Callable[[str, str], None],
        run: Callable[[str, Callable[[], ModuleType]], ModuleType],
    ) -> None:
        self._directories = list(directories)
        self._trees = list(trees)
        self._report = report
        self._run_module = run
        self._run: dict[str, ModuleType] = {}
        self._tried: set[str] = set()
        self._brought: set[str] = set()

    def find(self, disabled: Container[str] = ()) -> dict[str, ModuleType]:
        """The modules by the name of their file; those of the directories come first."""
        for directory in self._directories:
            for name, path in self.files(directory).items():
                self._load(name, functools.partial(load_module, path, name), disabled)
        for tree in self._trees:
            if tree.name in self._tried and tree.name not in self._brought:
                self._report(tree.name, "of this workspace has the name of a plugin of yours and is left out")
            self._brought.add(tree.name)
            self._load(tree.name, functools.partial(import_tree, tree), disabled)
        return self._run

    @staticmethod
    def files(directory: Path) -> dict[str, Path]:
        """The files a directory of plugins has, by the name of the plugin."""
        paths = sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")])
        return {path.parent.name if path.name == "__init__.py" else path.stem: path for path in paths}

    def _load(self, name: str, load: Callable[[], ModuleType], disabled: Container[str]) -> None:
        if name in self._tried or name in disabled:
            return
        self._tried.add(name)
        try:
            self._run[name] = self._run_module(name, load)
        except BROKEN as error:  # a plugin that cannot be imported must not take others with it
            self._report(name, f"cannot be imported: {error}")


def find(
    kind: str, modules: Modules, report: Callable[[str, str], None], disabled: Container[str] = ()
) -> dict[str, Loader]:
    """A loader for each plugin of this kind by name; the first of a name counts. `report(name, problem)` hears of
    what is left out for that."""
    found: dict[str, Loader] = {}
    if kind == "tool":
        found |= {name: Builtin(name, path) for name, path in BUILTIN.items()}
    for point in entry_points_of(ENTRY_POINT_GROUPS[kind]):
        if point.name in found:
            report(point.name, f"is offered again by {point.value}, which is left out")
        found.setdefault(point.name, point.load)
    for name, module in modules.find(disabled).items():
        if kind_of(module) != kind:
            continue
        if name in found:
            report(name, f"has a file ({module.__file__}) and is another plugin too; the file is left out")
        found.setdefault(name, functools.partial(identity, module))
    return found


def entry_points_of(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group in installed distributions.

    `importlib.metadata` costs more to import than most commands do, so it is asked only where one may have some.
    """
    if not any(may_offer(directory, group.encode()) for directory in sys.path):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def may_offer(directory: str, group: bytes) -> bool:
    """Whether a distribution in a directory of `sys.path` names this group; archives are not looked into, and may."""
    try:
        names = os.listdir(directory or ".")
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            try:
                with open(f"{directory or '.'}/{name}/entry_points.txt", "rb", buffering=0) as file:
                    text = file.read()
            except OSError:
                continue
            if group in text:
                return True
    return False


def kind_of(module: object) -> object:
    """Which kind of plugin a module says it is; None for one that says nothing, or cannot be asked."""
    try:
        return getattr(module, "PLUGIN_KIND", None)
    except BaseException:  # noqa: BLE001 what a module answers is third-party code
        return None


def instance(found: Any, host: Host) -> Any:
    """A plugin object from what a loader gave: an instance, a class, a factory or a module."""
    if isinstance(found, ModuleType):
        found = getattr(found, "create_plugin", None) or own_class(found)
    if isinstance(found, type) and issubclass(found, Plugin):
        return found(host)
    is_made = not isinstance(found, type) and isinstance(getattr(found, "name", None), str)
    return found if is_made or not callable(found) else found()


def identity(module: ModuleType) -> ModuleType:
    """A module that is loaded already."""
    return module


def import_tree(tree: PluginFiles) -> ModuleType:
    """A module that a workspace brings, from the bytes that were trusted."""
    from jaato.runtime.plugins.memory_import import import_from_memory  # few workspaces bring plugins

    return import_from_memory(tree)


def load_module(path: Path, name: str) -> ModuleType:
    """A module from a file, under a name that no other file has."""
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(f"jaato_plugin_{name}_{digest}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # what dataclasses and type hints of the module look up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
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


P = TypeVar("P")
LOADING_S = 30.0
NONE: Mapping[str, ModuleType] = MappingProxyType({})


class NamedPlugins(msgspec.Struct, Generic[P], frozen=True):
    """One kind of them: what it is called, what it must have, and `module:class` of those that come with jaato."""

    kind: str
    noun: str
    protocol: str
    methods: Sequence[str]
    builtin: Mapping[str, str]

    def discover(self, modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
        """A loader for each by name: built-in ones, those of the kind's entry points, and those of these modules.
        Nothing is imported yet."""
        found: dict[str, Loader] = {name: Builtin(name, path) for name, path in self.builtin.items()}
        for point in entry_points_of(ENTRY_POINT_GROUPS[self.kind]):
            found.setdefault(point.name, point.load)
        for name, module in modules.items():
            if kind_of(module) == self.kind:
                found.setdefault(name, functools.partial(identity, module))
        return found

    def load(
        self, name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
    ) -> P:
        """The one of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

        Whoever loads it shuts it down.
        """
        load: Loader | None = None
        if name in self.builtin:
            load = Builtin(name, self.builtin[name])
        else:
            known = self.discover(modules)
            load = known.get(name)
            if load is None:
                raise PluginError(f"No {self.noun} {name!r}; there are {', '.join(sorted(known))}.")

        def make() -> P:
            plugin: Any = self.make(load(), name)
            plugin.initialize(config)
            made: P = plugin
            return made

        return make() if name in self.builtin else run_bounded(LOADING_S, make, f"The {self.noun} {name!r}")

    def make(self, found: Any, name: str) -> P:
        """One from what an entry point or a module gives: an instance, a class or a factory. Raises `PluginError`."""
        if isinstance(found, ModuleType):
            factory = getattr(found, "create_plugin", None)
            if factory is None:
                raise PluginError(f"{found.__name__} has no create_plugin().")
            found = factory
        is_made = not isinstance(found, type) and isinstance(getattr(found, "name", None), str)
        return self.check(found if is_made or not callable(found) else found(), name)

    def check(self, plugin: Any, name: str) -> P:
        """The plugin, if it has what one needs. Raises `PluginError`."""
        missing = [method for method in self.methods if not callable(getattr(plugin, method, None))]
        if missing or not isinstance(getattr(plugin, "name", None), str):
            lacks = ", ".join(missing or ["name"])
            raise PluginError(f"{name} is no {self.noun}: it has no {lacks} (see {self.protocol}).")
        found: P = plugin
        return found


BUILTIN_STRATEGIES = {
    f"gc_{name.lower()}": f"jaato.agent.compaction.strategies:{name}GCPlugin"
    for name in ("Truncate", "Summarize", "Hybrid")
}
GC_PLUGINS: NamedPlugins[GCPlugin] = NamedPlugins(
    "gc",
    "GC strategy",
    "GCPlugin",
    ("initialize", "shutdown", "should_collect", "collect"),
    BUILTIN_STRATEGIES,
)

__all__ = ["GCConfig", "GCPlugin", "GCResult", "discover_gc_plugins", "load_gc_plugin"]


def discover_gc_plugins(modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
    """A loader for each strategy by name: built-in ones, those of the entry point group `jaato.gc_plugins`, and
    those of these modules. Nothing is imported yet."""
    return GC_PLUGINS.discover(modules)


def load_gc_plugin(
    name: str, config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> GCPlugin:
    """The strategy of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    return GC_PLUGINS.load(name, config, modules)
