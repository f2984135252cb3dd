"""What somebody means who names a plugin: a built-in one, an entry point, a file, `module:Class`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.abc.plugin import ENTRY_POINT_GROUPS
from jaato.errors import ConfigError
from jaato.plugins import BUILTIN
from jaato.runtime.discovery import entry_points_of, load_module
from jaato.runtime.strategies import BUILTIN_STRATEGIES
from jaato.settings import Settings

Loader = Callable[[], Any]


def target_of(name: str, workspace: Path, settings: Settings | None = None) -> Loader:
    """The loader of the plugin this names. Raises `ConfigError`.

    Naming a file, or a plugin of the workspace by its path, runs it: it is the author who checks.
    """
    for known in (BUILTIN, BUILTIN_STRATEGIES):
        if name in known:
            return functools.partial(imported, known[name])
    for kind in ("tool", "gc"):
        for point in entry_points_of(ENTRY_POINT_GROUPS[kind]):
            if point.name == name:
                return point.load
    path = Path(name) if Path(name).is_absolute() else workspace / name
    if path.is_dir() and (path / "__init__.py").is_file():
        return functools.partial(load_module, path / "__init__.py", path.name)
    if path.suffix == ".py" and path.is_file():
        return functools.partial(load_module, path, path.stem)
    if settings is not None:
        own = settings.config_dir / "plugins"
        for file in (own / f"{name}.py", own / name / "__init__.py"):
            if file.is_file():
                return functools.partial(load_module, file, name)
    if ":" in name:
        return functools.partial(imported, name)
    raise ConfigError(
        f"There is no plugin {name!r}: give the name of an installed one, a file, a package, or module:Class."
    )


def imported(path: str) -> Any:
    """A module, or `module:attribute` of it."""
    module, _, attribute = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
