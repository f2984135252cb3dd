"""Where plugins come from: those built in, installed entry points, directories of modules."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS, Host, Plugin
from jaato.errors import PluginError
from jaato.plugins import BUILTIN
from jaato.runtime.later import Builtin

Loader = Callable[[], Any]
BROKEN = (Exception, SystemExit)
"""What a plugin of somebody else may raise without taking the program with it."""


def find(kind: str, directories: Iterable[Path], report: Callable[[str, str], None]) -> dict[str, Loader]:
    """A loader for each plugin of this kind by name; the first of a name counts. `report(name, problem)` hears of
    modules in the directories that cannot be imported."""
    from importlib.metadata import entry_points

    found: dict[str, Loader] = {}
    if kind == "tool":
        found |= {name: Builtin(name, path) for name, path in BUILTIN.items()}
    for point in entry_points(group=ENTRY_POINT_GROUPS[kind]):
        if point.name in found:
            report(point.name, f"is offered again by {point.value}, which is left out")
        found.setdefault(point.name, point.load)
    for directory in directories:
        for name, module in modules(directory, report).items():
            if getattr(module, "PLUGIN_KIND", None) == kind and name not in found:
                found[name] = functools.partial(identity, module)
    return found


def modules(directory: Path, report: Callable[[str, str], None]) -> dict[str, ModuleType]:
    """The modules and packages of a directory, imported; what cannot be is reported."""
    found: dict[str, ModuleType] = {}
    if not directory.is_dir():
        return found
    for path in sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")]):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        try:
            found[name] = load_module(path, name)
        except BROKEN as error:  # a plugin that cannot be imported must not take others with it
            report(name, f"cannot be imported: {type(error).__name__}: {error}")
    return found


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


def load_module(path: Path, name: str) -> ModuleType:
    """A module from a file, under a name that no other file has."""
    import sys

    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(f"jaato_plugin_{name}_{digest}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # what dataclasses and type hints of the module look up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
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
