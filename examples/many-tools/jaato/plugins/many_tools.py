"""Five thousand tools that make text of their own name, one that knows the moon and one that books rooms: something to search in."""

from __future__ import annotations

import datetime
import functools
from typing import Any

from jaato.abc.plugin import Plugin
from jaato.protocol.specs import ToolSpec
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool

PLUGIN_KIND = "tool"
COUNT = 5_000
VERBS = "get list create update remove send search convert analyze export validate schedule merge archive restore".split()
NOUNS = (
    "user invoice report ticket order message branch calendar metric alert policy backup recipe flight song account token "
    "parcel contract photo"
).split()
QUALITIES = (
    "daily shared remote archived public nested secure temporary weekly draft regional internal nightly signed local "
    "pending yearly hidden"
).split()
NEW_MOON = datetime.date(2000, 1, 6)
MONTH_DAYS = 29.530588
PHASES = ["new", "waxing crescent", "first quarter", "waxing gibbous", "full", "waning gibbous", "last quarter",
          "waning crescent"]  # fmt: skip


class ManyTools(Plugin):
    """More tools than fit into any request."""

    name = "many_tools"

    @tool(category="astronomy", access="read")
    def lunar_phase(self, date: str) -> str:
        """The phase of the moon on a date, written YYYY-MM-DD."""
        age = (datetime.date.fromisoformat(date) - NEW_MOON).days % MONTH_DAYS
        return f"On {date} the moon is {PHASES[round(age / MONTH_DAYS * 8) % 8]}, {age:.1f} days old."

    @tool(category="office", access="read")
    def reserve_room(self, room: str, date: str) -> str:
        """Reserve a meeting room on a date, written YYYY-MM-DD."""
        return f"The room {room} is yours on {datetime.date.fromisoformat(date)}, confirmation K7Q2."

    def offered(self) -> list[Any]:
        """The others."""
        return [other_tool(number) for number in range(COUNT - 2)]


def other_tool(number: int) -> Tool:
    """One of the tools that nobody asks for."""
    verb = VERBS[number % len(VERBS)]
    noun = NOUNS[number // len(VERBS) % len(NOUNS)]
    quality = QUALITIES[number // (len(VERBS) * len(NOUNS)) % len(QUALITIES)]
    schema = {
        "type": "object",
        "properties": {f"{noun}_id": {"type": "string", "description": f"The id of the {quality} {noun}"}},
    }
    spec = ToolSpec(
        f"{verb}_{quality}_{noun}_{number}",
        f"{verb.capitalize()} the {quality} {noun}.",
        schema,
        noun,
        access="read",
    )
    return Tool(spec, functools.partial(answer, spec.name), plugin="many_tools", checked=schema)


def answer(name: str, arguments: dict[str, Any], call: Call) -> str:
    """What a tool says that does nothing."""
    return f"{name} did nothing."
