"""Schemas of strangers: how deep and how large one may be before it is even compiled."""

from __future__ import annotations

from typing import Any

import msgspec

from jaato.errors import PluginError
from jaato.protocol.codec import json_problems
from jaato.tools.schema import Validator

MAX_SCHEMA_BYTES = 256_000
MAX_SCHEMA_DEPTH = 32


def validator_of(schema: dict[str, Any], what: str = "its parameters") -> Validator:
    """A validator for a stranger's schema. Raises `PluginError`."""
    if json_problems(schema) or not depth_within(schema, MAX_SCHEMA_DEPTH):
        raise PluginError(f"{what} are nested too deeply, or hold what is no JSON")
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        raise PluginError(f"{what} have more than {MAX_SCHEMA_BYTES:,} bytes")
    return Validator(schema)


def depth_within(value: Any, most: int) -> bool:
    """Whether a JSON value is nested no deeper than so many levels."""
    level = [value]
    for _ in range(most + 1):
        level = [
            member
            for one in level
            if isinstance(one, dict | list)
            for member in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False
