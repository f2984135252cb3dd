"""Domains: modules of tools that a registry serves, each with `load_tools() -> list[Tool]`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from jaato.errors import ConfigError, JaatoError
from jaato.runtime.domains.checked import check
from jaato.tools.schema import Validator
from jaato.tools.tool import Tool, tool_from

OWN = {"core": "jaato.runtime.domains.core"}
FOLDER = "tool_registry.domains"
"""Where the specification puts domains: a module that is there is found by its last name."""


def load_domains(names: Iterable[str]) -> list[Tool]:
    """The tools of these domains, in their order, of which several may have one name and each its version. Raises
    `ConfigError` for one that is not there, is none, or offers a tool whose name and version are taken."""
    tools: dict[tuple[str, str], tuple[Tool, str]] = {}
    for name in dict.fromkeys(names):
        for one in tools_of_domain(name):
            key = (one.name, one.version)
            if key in tools:
                first = tools[key][1]
                whose = (
                    f"The domain {name} twice has"
                    if first == name
                    else f"The domains {first} and {name} both have"
                )
                raise ConfigError(f"{whose} a tool {one.name!r} {one.version}.")
            tools[key] = (one, name)
    return [one for one, _ in tools.values()]


def tools_of_domain(name: str) -> list[Tool]:
    """The tools of one domain. Raises `ConfigError`."""
    load: Callable[[], Any] | None = getattr(module_of(name), "load_tools", None)
    if not callable(load):
        raise ConfigError(f"The domain {name!r} has no load_tools(); it gives the list of its tools.")
    try:
        given = load()
        if isinstance(given, Coroutine):
            given.close()  # nobody waits for it, and nobody is to be warned of that
        if not isinstance(given, Iterable):
            raise ConfigError(f"load_tools() gives {given!r:.80}; it gives the list of its tools, at once.")
        found = [tool_of(one) for one in given]
        for one in found:
            one.plugin = one.plugin or name
            check(one)
            Validator(one.checked or {})  # what is no schema is found now, not by the first caller
    except (Exception, SystemExit) as error:
        told = str(error) if isinstance(error, JaatoError) else repr(error)
        raise ConfigError(f"The domain {name!r} cannot give its tools: {told:.300}") from error
    return found


def tool_of(given: Any) -> Tool:
    """What a domain gives, as a tool. Raises `ConfigError`, `PluginError`."""
    if not (isinstance(given, Tool) or callable(given)):
        raise ConfigError(f"{given!r:.80} is no tool; load_tools() gives a list of tools, or of functions.")
    return given if isinstance(given, Tool) else tool_from(given)


def module_of(name: str) -> ModuleType:
    """The module of a domain: one of ours, one in `tool_registry.domains`, one by its import path, or a file `….py`.

    Raises `ConfigError`.
    """
    try:
        if name.endswith(".py"):
            return module_at(Path(name))
        for path in (OWN.get(name), f"{FOLDER}.{name}", name):
            if path is not None and is_there(path):
                return importlib.import_module(path)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"The domain {name!r} cannot be loaded: {error!r:.300}") from error
    raise ConfigError(
        f"There is no domain {name!r}: name one of {', '.join(OWN)}, a module by its import path, or a file ending in .py."
    )


def is_there(path: str) -> bool:
    """Whether there is such a module; only what is above it is imported."""
    try:
        return importlib.util.find_spec(path) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def module_at(path: Path) -> ModuleType:
    """The module in a file, imported once."""
    known = f"jaato_domain_{path.stem}_{abs(hash(path.resolve())):x}"
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"There is no file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # before it runs: what it defines looks for itself here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known]
        raise
    return module
