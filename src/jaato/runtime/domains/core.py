"""The domain `core`: an echo, a calculator and a clock."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from jaato.plugins.arithmetic import MAX_CHARS, digits, evaluate
from jaato.plugins.clock import convert_zone
from jaato.tools.tool import Tool, tool, tool_from

LARGEST = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly (RFC 8259, section 6)."""
TEXT = {"type": "string"}
Value = int | float | bool | str | list[Any]


def load_tools() -> list[Tool]:
    """The tools of this domain."""
    return [tool_from(one, "core") for one in (echo, calc, time_now)]


def object_of(**properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


@tool(access="read", tags=("core", "text"), returns=object_of(text=TEXT))
async def echo(text: Annotated[str, "what to give back"]) -> dict[str, str]:
    """Give back a text as it is. Use it to see whether the registry answers."""
    return {"text": text}


@tool(
    access="read",
    tags=("core", "math"),
    returns=object_of(
        expression=TEXT,
        value={
            "description": "a number; its digits as a string where it is too large to be a number in JSON",
            "type": ["number", "boolean", "string", "array"],
        },
    ),
)
def calc(
    expression: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_CHARS,
            description="such as 2*(3+4)**2, sqrt(2), mean(1, 2, 4) or 15 % 4; pi and e are known",
        ),
    ],
) -> dict[str, Any]:
    """Work out arithmetic on numbers: operators as in Python, roots, logarithms, statistics. Returns the value."""
    return {"expression": expression, "value": plain_number(evaluate(expression))}


@tool(access="read", tags=("core", "time"), returns=object_of(tz=TEXT, iso=TEXT))
async def time_now(
    tz: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=100, description="such as UTC, Europe/Berlin or +02:00"),
    ] = "UTC",
) -> dict[str, str]:
    """Tell the current time in a time zone. Returns the zone and the time in ISO 8601 with its offset."""
    moment = convert_zone(datetime.now(UTC), tz)
    return {"tz": tz, "iso": moment.isoformat(timespec="milliseconds")}


def plain_number(value: Any) -> Value:
    """A value in JSON that every reader understands: a number where that loses no precision."""
    match value:
        case bool() | float():
            return value
        case int():
            return value if abs(value) <= LARGEST else digits(value)
        case Fraction():
            return near(value)
        case list():
            return [plain_number(one) for one in value]
    return str(value)


def near(value: Fraction) -> float | str:
    """The float next to a fraction; its whole part where that is beyond all floats."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return digits(int(value))
