"""JSON encoding and decoding of events, commands and messages by msgspec, and bounds on values from outside."""

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

MAX_ITEMS = 1_000_000
"""Parts a value from outside may have, counted as often as they are referred to."""
MAX_PROBLEMS = 100
MAX_FLAT = 100
TOO_MANY = f"has more than {MAX_ITEMS} parts"

ENCODER = msgspec.json.Encoder()
EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
COMMANDS: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

encode = ENCODER.encode
decode_event = EVENTS.decode
decode_command = COMMANDS.decode
decode_message = MESSAGES.decode


def json_problems(value: Any, max_depth: int = MAX_DEPTH) -> list[tuple[str, str]]:
    """The places where a value is not plain JSON, as (JSON Pointer, what is wrong), at most `MAX_PROBLEMS` of them;
    empty when it is. The work is bounded, also for a value that contains itself or one part very often."""
    found: list[tuple[str, str]] = []
    if value.__class__ is dict and len(value) <= MAX_FLAT:
        for key, item in value.items():
            if not (key.__class__ is str and item.__class__ is str and key.isascii() and item.isascii()):
                break
        else:
            return found  # the most usual object: few texts under names, all of them plain
    look(value, "", max_depth, found, [MAX_ITEMS])
    return found


def look(value: Any, path: str, levels: int, found: list[tuple[str, str]], left: list[int]) -> None:
    """Add the problems of a value and its parts to `found`; `levels` counts down the nesting, `left` the parts still to be
    looked at."""
    match value:
        case None | bool():
            return
        case str():
            if not value.isascii() and not is_unicode(value):
                found.append((path, "has a lone surrogate"))
        case int():
            if not -(2**63) <= value < 2**64:
                found.append((path, "is an integer beyond 64 bits"))
        case float():
            if not math.isfinite(value):
                found.append((path, f"is {value}, which JSON cannot carry"))
        case dict() | list() | tuple() if levels == 0:
            found.append((path, "is nested deeper than is read here; make it flatter"))
        case dict() | list() | tuple() if left[0] < len(value):
            found.append((path, TOO_MANY))
        case dict() | list() | tuple():
            left[0] -= len(value)
            look_inside(value, path, levels - 1, found, left)
        case _:
            found.append((path, f"is a {type(value).__name__}, which is not JSON"))


def look_inside(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...],
    path: str,
    levels: int,
    found: list[tuple[str, str]],
    left: list[int],
) -> None:
    """Add the problems of the parts, until there are enough."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key.__class__ is str and key.isascii() and item.__class__ is str and item.isascii():
                continue  # the most there is, and nothing wrong with it
            if not isinstance(key, str) or not is_unicode(key):
                found.append((path, f"has the key {reprlib.repr(key)}, which is not Unicode text"))
            else:
                look(item, f"{path}/{escape(key)}", levels, found, left)
            if len(found) >= MAX_PROBLEMS:
                return
        return
    for index, item in enumerate(value):
        look(item, f"{path}/{index}", levels, found, left)
        if len(found) >= MAX_PROBLEMS:
            return


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
    from inspect import cleandoc

    names = ("event", "command", "message")
    refs, definitions = msgspec.json.schema_components((Event, Command, Message))
    for kind in get_args(Event):
        definitions[kind.__name__]["required"].append("timestamp")  # it has a default only for who makes one
    for definition in definitions.values():  # Python 3.13 stores docstrings without their indentation
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jaato protocol 1",
        "properties": dict(zip(names, refs, strict=True)),
        "$defs": definitions,
    }
