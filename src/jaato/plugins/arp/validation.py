"""Validation of what a registry sends: names, sizes and schemas of tools, invisible characters, and destructive tools."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from msgspec import UNSET

from jaato.errors import PluginError
from jaato.plugins.arp.errors import RegistryFault
from jaato.protocol.arp import INVOKE, SPOKEN, ToolDefinition, ToolView
from jaato.protocol.codec import is_unicode
from jaato.protocol.specs import Access
from jaato.tools.filesystem.containment import display_name
from jaato.tools.invisible_text import escape_invisible, find_invisible, strings_in
from jaato.tools.schema import MAX_SCHEMA_DEPTH, Validator, depth_within, validator_of

MAX_TOOLS = 10_000
MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 4_000
MAX_DROPPED = 20
CAREFUL = frozenset(
    "admin danger dangerous delete destructive exec execute filesystem mutating process root shell sudo write".split()
)
"""Words in the tags or the source of a tool that say it does more than answer."""
ANNOTATIONS = frozenset(("description", "title", "$comment"))
"""The annotations of a JSON Schema, which are for its reader and check nothing."""


def usable_views(views: list[ToolView]) -> tuple[list[ToolView], list[str]]:
    """The tools of a list that can be offered, and what was left out. Of two with one name there is neither."""
    dropped: list[str] = []
    kept: list[ToolView] = []
    if len(views) > MAX_TOOLS:
        dropped.append(f"{len(views) - MAX_TOOLS:,} tools beyond the first {MAX_TOOLS:,}")
    counts = Counter(view.name for view in views[:MAX_TOOLS])
    doubled = [name for name, count in counts.items() if count > 1]
    dropped += [f"the tool {display_name(name)[:80]!r}: it is there twice" for name in doubled]
    for view in views[:MAX_TOOLS]:
        why = name_problem(view.name)
        if why:
            dropped.append(f"the tool {display_name(view.name)[:80]!r}: its name {why}")
        elif counts[view.name] == 1:
            kept.append(ToolView(view.name, sanitize_text(view.description) or view.name))
    if len(dropped) > MAX_DROPPED:
        dropped = [*dropped[:MAX_DROPPED], f"{len(dropped) - MAX_DROPPED:,} more"]
    return kept, dropped


def name_problem(name: str) -> str:
    """Why a name cannot be one of a tool; empty when it can."""
    if not name or name != name.strip() or len(name) > MAX_NAME_CHARS:
        return f"is blank, has space around it or more than {MAX_NAME_CHARS} characters"
    if find_invisible(name) or not name.isprintable() or not is_unicode(name):
        return "has invisible characters"
    if not name.strip("."):
        return "is a step of a path"
    return f"ends in {INVOKE}, which a call does" if name.endswith(INVOKE) else ""


def sanitize_text(description: str) -> str:
    """A third party's words about a tool, as a model may read them: bounded, nothing unseen in them."""
    text = description.strip()
    return escape_invisible(
        text if len(text) <= MAX_DESCRIPTION_CHARS else text[:MAX_DESCRIPTION_CHARS] + "…"
    )


def sanitize_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A foreign schema with invisible characters spelt out; one that is nested too deeply stays as it is."""
    if not unseen_in(schema) or not depth_within(schema, MAX_SCHEMA_DEPTH):
        return schema
    found: dict[str, Any] = escape_texts(schema)
    return found


def escape_texts(value: Any) -> Any:
    """Part of a schema with invisible characters spelt out."""
    match value:
        case dict():
            return {
                key: escape_invisible(one)
                if key in ANNOTATIONS and isinstance(one, str)
                else escape_texts(one)
                for key, one in value.items()
            }
        case list():
            return [escape_texts(one) for one in value]
    return value


def unseen_in(schema: dict[str, Any]) -> list[str]:
    """The invisible characters anywhere in a schema, each once."""
    return sorted({char for text in strings_in(schema) for char in find_invisible(text)})


def check_definition(definition: ToolDefinition, name: str) -> Validator:
    """What checks arguments by a definition. Raises `RegistryFault` for one that is not that of the tool, or unusable."""
    if definition.name != name:
        raise RegistryFault(f"it is that of {display_name(definition.name)[:80]!r}")
    if SPOKEN.fullmatch(definition.schema_version) is None:
        raise RegistryFault(f"its schema_version is {display_name(definition.schema_version)[:40]!r}")
    if definition.parameters.get("type", "object") != "object":
        raise RegistryFault(
            f"its parameters are of type {str(definition.parameters['type'])[:40]!r}, not object"
        )
    if unseen := unseen_in(definition.parameters):
        raise RegistryFault(f"its parameters have invisible characters ({', '.join(unseen[:5])})")
    try:
        return validator_of(definition.parameters)
    except PluginError as error:
        raise RegistryFault(str(error).rstrip(".")) from None


def is_destructive(definition: ToolDefinition) -> bool:
    """Whether a definition itself says that the tool does more than answer. What it says of being harmless counts for
    nothing."""
    texts = [*(definition.tags if definition.tags is not UNSET else [])]
    match definition.source:
        case str() as text:
            texts.append(text)
        case dict() as facts:
            texts += [f"{key} {value}" for key, value in facts.items() if value is not False]
    words = {word for text in texts[:200] for word in words_of(text[:500])}
    return not CAREFUL.isdisjoint(words)


@functools.lru_cache(maxsize=1024)
def words_of(text: str) -> frozenset[str]:
    """The words of a tag, small."""
    return frozenset("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def access_of(careful: bool) -> Access:
    """What a tool may touch: never less than the network; everything, where its registry says it does more."""
    return "execute" if careful else "network"
