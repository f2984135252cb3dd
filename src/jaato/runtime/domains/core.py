"""The domain `core`: an echo, a calculator and a clock."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from jaato.errors import ToolError
from jaato.plugins.arithmetic import MAX_CHARS, evaluate
from jaato.plugins.clock import convert_zone
from jaato.tools.tool import Tool, tool, tool_from

LARGEST = 2**63 - 1
"""The largest whole number that is written with all its digits."""
TEXT = {"type": "string"}
Zone = Annotated[str, msgspec.Meta(max_length=100)]


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
    returns=object_of(expression=TEXT, value={"type": "number"}),
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
    tz: Annotated[Zone | None, "such as UTC, Europe/Berlin or +02:00; null is UTC"] = "UTC",
) -> dict[str, str]:
    """Tell the current time in a time zone. Returns the zone and the time in ISO 8601 with its offset."""
    tz = tz or "UTC"
    moment = convert_zone(datetime.now(UTC), tz)
    return {"tz": tz, "iso": moment.isoformat()}


def plain_number(value: Any) -> int | float:
    """A value as a number of JSON: exact where it fits into 64 bits, else the nearest float. Raises `ToolError`."""
    match value:
        case bool():
            pass
        case float():
            return value
        case int() | Fraction():
            return value if isinstance(value, int) and abs(value) <= LARGEST else near(value)
    raise ToolError("The value of the expression is not a number.")


def near(value: int | Fraction) -> float:
    """The float next to a number. Raises `ToolError` for one beyond all floats."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        raise ToolError("The value is too large for a number in JSON.") from None
