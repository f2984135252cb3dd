"""What is put, held against what a tool can be: every problem by its path."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
from msgspec import UNSET

from jaato.errors import PluginError
from jaato.protocol.arp import SCHEMA_VERSION, SPOKEN
from jaato.protocol.codec import json_problems
from jaato.server.registry.registered.types import Described, Invalid
from jaato.tools.invisible_text import find_invisible
from jaato.tools.schema import depth_within, validator_of
from jaato.tools.tool import WIRE_NAME

MAX_DESCRIPTION_CHARS = 4_000
MAX_TAGS = 50
MAX_TAG_CHARS = 100
MAX_SOURCE_BYTES = 10_000
MAX_SOURCE_DEPTH = 8
MAX_TIMEOUT_S = 3_600.0
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
TAKEN = ("mcp__",)
"""How the names of others' tools begin."""

Issues = list[tuple[str, str]]


def check(name: str, given: Described) -> None:
    """Raise `Invalid` for what cannot be a tool of this name."""
    issues: Issues = []
    if not WIRE_NAME.fullmatch(name):
        issues.append(("/name", "has letters, digits, _ and -, at most 64"))
    elif name.startswith(TAKEN):
        issues.append(("/name", f"does not begin with {TAKEN[0]!r}, as those of MCP servers do"))
    if given.name is not UNSET and given.name != name:
        issues.append(("/name", "is another than that of the address"))
    if given.schema_version is not UNSET and SPOKEN.fullmatch(given.schema_version) is None:
        issues.append(("/schema_version", f"is not spoken here; {SCHEMA_VERSION} is"))
    if not VERSION.fullmatch(given.version):
        issues.append(
            ("/version", "has letters, digits and . + _ -, at most 64, and begins with one of the former")
        )
    issues += description_issues(given.description)
    issues += schema_issues(given)
    issues += beside_issues(given)
    if given.handler is not UNSET:
        seconds = given.handler.timeout_s
        if not (math.isfinite(seconds) and 0 < seconds <= MAX_TIMEOUT_S):
            issues.append(("/handler/timeout_s", f"is more than 0 and at most {MAX_TIMEOUT_S:g} seconds"))
    if issues:
        raise Invalid(issues)


def description_issues(text: str) -> Issues:
    """What is wrong with a description."""
    if not text.strip():
        return [("/description", "is empty; say when the tool is to be used, and what comes back")]
    if len(text) > MAX_DESCRIPTION_CHARS:
        return [("/description", f"has at most {MAX_DESCRIPTION_CHARS:,} characters")]
    if find_invisible(text):
        return [("/description", "holds characters that nobody sees")]
    return []


def schema_issues(given: Described) -> Issues:
    """What is wrong with `parameters` and `returns`."""
    issues: Issues = []
    if given.parameters.get("type", "object") != "object":
        issues.append(("/parameters/type", "is not object: arguments have names"))
    for path, schema in (("/parameters", given.parameters), ("/returns", given.returns)):
        if schema is UNSET:
            continue
        try:
            validator_of(schema, "they")
        except PluginError as error:
            issues.append((path, one_sentence(str(error))))
    return issues


def beside_issues(given: Described) -> Issues:
    """What is wrong with `tags` and `source`."""
    issues: Issues = []
    tags: list[str] = [] if given.tags is UNSET else given.tags
    if len(tags) > MAX_TAGS or len(set(tags)) < len(tags):
        issues.append(("/tags", f"are at most {MAX_TAGS}, each once"))
    for number, tag in enumerate(tags[:MAX_TAGS]):
        if not tag.strip() or len(tag) > MAX_TAG_CHARS or find_invisible(tag) or not tag.isprintable():
            issues.append((f"/tags/{number}", f"is a word of at most {MAX_TAG_CHARS} characters"))
    source: Any = {} if given.source is UNSET else given.source
    if json_problems(source) or not depth_within(source, MAX_SOURCE_DEPTH):
        issues.append(("/source", "is nested too deeply, or holds what is no JSON"))
    elif len(msgspec.json.encode(source)) > MAX_SOURCE_BYTES:
        issues.append(("/source", f"has at most {MAX_SOURCE_BYTES:,} bytes"))
    return issues


def one_sentence(text: str) -> str:
    """A text in one line, without the full stop."""
    return " ".join(text.split()).rstrip(".")[:400]
