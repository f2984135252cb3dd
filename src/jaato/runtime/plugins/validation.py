"""Validation of a plugin's declarations when it is exposed."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from jaato.abc.plugin import Enrichment
from jaato.errors import PluginError
from jaato.protocol.codec import is_unicode
from jaato.protocol.specs import ToolSpec
from jaato.tools.tool import Tool

T = TypeVar("T")
MAX_TOOLS, MAX_SCHEMA_BYTES, MAX_DESCRIPTION_CHARS, MAX_INSTRUCTION_CHARS = 10_000, 262_144, 10_000, 20_000
"""What one plugin may bring: more is a mistake, and would be paid for in every request."""
MAX_NAME_CHARS, MAX_CATEGORY_CHARS, MAX_COMMANDS = 128, 64, 1_000


def plugin_name(plugin: object) -> str:
    """The plugin's name; raises `PluginError` when it has none that can be shown on a line."""
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(f"{type(plugin).__name__} has no `name`; give it a non-empty string.")
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise PluginError(
            f"{type(plugin).__name__} has a name that cannot be shown: at most {MAX_NAME_CHARS} printable characters."
        )
    return str(name)


def take_at_most(values: Iterable[T] | None, most: int, what: str) -> list[T]:
    """The values as a list. Raises `PluginError` where they are more, or have no end."""
    found = list(itertools.islice(values or [], most + 1))
    if len(found) > most:
        raise PluginError(f"{what} more than {most:,} are too many.")
    return found


def require_sync(value: T, what: str) -> T:
    """The value at once. Raises `PluginError` for one that is still to come."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise PluginError(f"{what} is asynchronous; make it a plain function.")


def check_tools(tools: list[Any], plugin: str) -> list[Tool]:
    """The tools of a native plugin. Raises `PluginError` for what is none, and for too much."""
    for tool in tools:
        if not isinstance(tool, Tool) or not isinstance(tool.spec, ToolSpec):
            raise PluginError(f"The plugin {plugin} offers a {type(tool).__name__} as a tool.")
        name = tool.spec.name
        if len(tool.spec.description) > MAX_DESCRIPTION_CHARS:
            raise PluginError(
                f"The plugin {plugin}, tool {name}: its description is longer than {MAX_DESCRIPTION_CHARS:,} characters."
            )
        problem = category_problem(tool.spec.category)
        if problem:
            raise PluginError(f"The plugin {plugin}, tool {name}: {problem}.")
        if not is_unicode(tool.spec.description):
            raise PluginError(f"The plugin {plugin}, tool {name}: its description is no Unicode text.")
        check_size(tool.spec.parameters, f"The plugin {plugin}, tool {name}: its")
    return tools


def category_problem(category: object) -> str | None:
    """What is wrong with the category of a tool, or None."""
    if not isinstance(category, str):
        return f"the category {category!r:.80} is no text"
    if len(category) > MAX_CATEGORY_CHARS or not category.isprintable():
        return f"its category is not at most {MAX_CATEGORY_CHARS} printable characters"
    return None


def check_size(parameters: dict[str, Any], whose: str) -> None:
    """Raise `PluginError` for parameters that are too large, or no JSON."""
    try:
        size = len(msgspec.json.encode(parameters))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"{whose} parameters are no JSON: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise PluginError(f"{whose} parameters are larger than {MAX_SCHEMA_BYTES // 1024} KiB.")


def check_enrichment(enrichment: Any, plugin: str) -> Enrichment:
    """When a plugin is asked about prompts. Raises `PluginError` for what would spoil every prompt."""
    if not isinstance(enrichment, Enrichment):
        raise PluginError(
            f"The plugin {plugin}: its enrichment is a {type(enrichment).__name__}, no Enrichment."
        )
    if not isinstance(enrichment.priority, int):
        raise PluginError(
            f"The plugin {plugin}: the priority {enrichment.priority!r:.40} is no whole number."
        )
    try:
        if not isinstance(enrichment.pattern, str):
            raise TypeError("it is no text")
        re.compile(enrichment.pattern)
    except (TypeError, re.error, RecursionError, OverflowError) as error:
        raise PluginError(f"The plugin {plugin}: its enrichment's pattern cannot be used: {error}.") from None
    present: object = enrichment.present
    if not isinstance(present, tuple) or not all(
        isinstance(name, str) and "\0" not in name for name in present
    ):
        raise PluginError(f"The plugin {plugin}: its enrichment's present is no tuple of file names.")
    return enrichment


def check_names(names: Any, plugin: str) -> tuple[str, ...]:
    """The tools whose results a plugin sees; a name alone is one. Raises `PluginError` for what are no names."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, (tuple, list, set, frozenset)) or not all(
        isinstance(name, str) for name in names
    ):
        raise PluginError(f"The plugin {plugin}: enriches_results is no tuple of names of tools.")
    return tuple(names)
