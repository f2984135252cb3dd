"""The one codec: JSON by msgspec, plus the checks it leaves to its caller."""

from __future__ import annotations

import math
import reprlib
from typing import Any, get_args

import msgspec

from jaato.protocol.commands import Command
from jaato.protocol.events import Event
from jaato.protocol.messages import Message

MAX_DEPTH = 100
"""Levels of nesting a value from outside may have."""
MAX_VALUES = 1_000_000
"""Values in a value from outside."""
MAX_PROBLEMS = 100
TOO_MANY = f"has more than {MAX_VALUES:,} values"

ENCODER = msgspec.json.Encoder()
EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
COMMANDS: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

encode = ENCODER.encode
decode_event = EVENTS.decode
decode_command = COMMANDS.decode
decode_message = MESSAGES.decode


def json_problems(value: Any) -> list[tuple[str, str]]:
    """The places where a value is not plain JSON, as (JSON Pointer, what is wrong); empty when it is.

    At most about `MAX_PROBLEMS`, and the work is bounded: what holds more than `MAX_VALUES` values (or itself, many
    times over) is a problem of its own.
    """
    return problems(value, "", 0, [MAX_VALUES])


def problems(value: Any, path: str, depth: int, left: list[int]) -> list[tuple[str, str]]:
    """`json_problems` of a part; `left` counts the values that may still be looked at."""
    match value:
        case None | bool():
            return []
        case str():
            return [] if value.isascii() or is_unicode(value) else [(path, "has a lone surrogate")]
        case int():
            return [] if -(2**63) <= value < 2**64 else [(path, "is an integer beyond 64 bits")]
        case float():
            return [] if math.isfinite(value) else [(path, f"is {value}, which JSON cannot carry")]
        case dict() | list() | tuple() if depth >= MAX_DEPTH:
            return [(path, f"is nested deeper than {MAX_DEPTH} levels")]
        case dict() | list() | tuple():
            left[0] -= len(value)
            if left[0] < 0:
                return [(path, TOO_MANY)]
            found: list[tuple[str, str]] = []
            for step, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(value, dict) and (not isinstance(step, str) or not is_unicode(step)):
                    found.append((path, f"has the key {reprlib.repr(step)}, which is not Unicode text"))
                else:
                    found += problems(item, f"{path}/{escape(str(step))}", depth + 1, left)
                if left[0] < 0 or len(found) >= MAX_PROBLEMS:
                    left[0] = -1
                    break
            return found
    return [(path, f"is a {type(value).__name__}, which is not JSON")]


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape(key: str) -> str:
    """A key as a segment of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def json_schema() -> dict[str, Any]:
    """The JSON Schema 2020-12 of everything that crosses a wire or a disk."""
    names = ("event", "command", "message")
    refs, definitions = msgspec.json.schema_components((Event, Command, Message))
    for kind in get_args(Event):
        definitions[kind.__name__]["required"].append("timestamp")  # it has a default only for who makes one
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jaato protocol 1",
        "properties": dict(zip(names, refs, strict=True)),
        "$defs": definitions,
    }
