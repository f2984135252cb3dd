"""Domains: modules of tools that a registry serves, each with `load_tools() -> list[Tool]`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from jaato.errors import ConfigError, JaatoError
from jaato.protocol.arp import INVOKE
from jaato.protocol.codec import is_unicode, json_problems
from jaato.protocol.specs import Access
from jaato.tools.schema import Validator
from jaato.tools.tool import Tool, tool_from

OWN = {"core": "jaato.runtime.domains.core"}
FOLDER = "tool_registry.domains"
"""The package in which the specification puts domains: its modules can be named without it."""


def load_domains(names: Iterable[str]) -> list[Tool]:
    """The tools of these domains, in order; several may have the same name in different versions. Raises `ConfigError` for
    an unknown or invalid domain, and for a tool whose name and version are taken."""
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
            given.close()  # so that Python does not warn that it was never awaited
        if not isinstance(given, Iterable):
            raise ConfigError(f"load_tools() gives {given!r:.80}; it gives the list of its tools, at once.")
        found = [tool_of(one) for one in given]
        for one in found:
            one.plugin = one.plugin or name
            check_tool(one)
            Validator(one.checked or {})  # an invalid schema is reported now, not by the first call
    except (Exception, SystemExit) as error:
        reason = str(error) if isinstance(error, JaatoError) else repr(error)
        raise ConfigError(f"The domain {name!r} cannot give its tools: {reason:.300}") from error
    return found


def tool_of(given: Any) -> Tool:
    """The tool that a domain provides, or that is made from its function. Raises `ConfigError`, `PluginError`."""
    if not (isinstance(given, Tool) or callable(given)):
        raise ConfigError(f"{given!r:.80} is no tool; load_tools() gives a list of tools, or of functions.")
    return given if isinstance(given, Tool) else tool_from(given)


def module_of(name: str) -> ModuleType:
    """The module of a domain: a built-in one, one in `tool_registry.domains`, an import path, or a file `….py`.

    Raises `ConfigError`.
    """
    try:
        if name.endswith(".py"):
            return module_at(Path(name))
        for path in (OWN.get(name), f"{FOLDER}.{name}", name):
            if path is not None and module_exists(path):
                return importlib.import_module(path)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"The domain {name!r} cannot be loaded: {error!r:.300}") from error
    raise ConfigError(
        f"There is no domain {name!r}: name one of {', '.join(OWN)}, a module by its import path, or a file ending in .py."
    )


def module_exists(path: str) -> bool:
    """Whether a module exists; only its parent packages are imported."""
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
    sys.modules[known] = module  # before it runs, so that its classes find their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known]
        raise
    return module


def check_tool(tool: Tool) -> None:
    """Raise `ConfigError` for a tool that cannot be listed, described or called as declared."""
    fault = next((one for one in (text_fault(tool), schema_fault(tool), call_fault(tool)) if one), "")
    if fault:
        raise ConfigError(f"The tool {tool.name!r:.80} cannot be served: {fault}.")


def text_fault(tool: Tool) -> str:
    """What is wrong with the name, description, version and tags; empty if nothing is."""
    if not isinstance(tool.tags, tuple | list):
        return f"its tags are {tool.tags!r:.80}; they are a tuple of texts"
    texts: list[tuple[str, Any]] = [("name", tool.name), ("version", tool.version)]
    texts += [("tag", one) for one in tool.tags]
    for what, text in (*texts, ("description", tool.spec.description)):
        if not isinstance(text, str) or not (text or what == "description"):
            return f"its {what} is {text!r:.80}, which is no text"
        if not is_unicode(text):
            return f"its {what} has a lone surrogate"
    if not tool.name.isprintable() or tool.name in (".", "..") or tool.name.endswith(INVOKE):
        return "no path leads to a tool of this name"
    return ""


def schema_fault(tool: Tool) -> str:
    """What is wrong with the schemas and the source; empty if nothing is."""
    parameters = tool.checked if tool.checked is not None else tool.spec.parameters
    returns = {} if tool.returns is None else tool.returns
    for what, schema in (("parameters", parameters), ("returns", returns)):
        if not isinstance(schema, dict):
            return f"its {what} are {schema!r:.80}, which is no JSON Schema"
        for path, problem in json_problems(schema):
            return f"its {what}{path} {problem}"
    if not isinstance(tool.source, Mapping):
        return f"its source is {tool.source!r:.80}, which is no object"
    for path, problem in json_problems(dict(tool.source)):
        return f"its source{path} {problem}"
    if parameters.get("type", "object") != "object":
        return f"its parameters are of the type {parameters['type']!r:.80}; arguments are an object"
    return ""


def call_fault(tool: Tool) -> str:
    """What is wrong with the function, the access and the timeout; empty if nothing is."""
    if not callable(tool.run):
        return f"it is run by {tool.run!r:.80}, which is no function"
    if tool.spec.access not in get_args(Access):
        return f"its access is {tool.spec.access!r:.80}; it is one of {', '.join(get_args(Access))}"
    seconds: object = tool.timeout_s
    if seconds is not None and not is_timeout(seconds):
        return f"it has {seconds!r:.80} s for a call"
    return ""


def is_timeout(seconds: object) -> bool:
    """Whether a value is a timeout in seconds."""
    try:
        return isinstance(seconds, int | float) and float(seconds) > 0
    except OverflowError:
        return False
