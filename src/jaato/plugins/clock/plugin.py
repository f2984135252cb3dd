"""The `date_time` tool."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from jaato.abc.plugin import Plugin
from jaato.tools.tool import tool


class ClockPlugin(Plugin):
    """Dates and times, without doing calendar arithmetic in one's head."""

    name: ClassVar[str] = "clock"

    @tool(
        category="system",
        access="read",
        examples=({"zone": "Asia/Tokyo"}, {"when": "2026-03-01T09:00", "add": "90 days"}),
    )
    def date_time(
        self,
        when: Annotated[
            str, "now, ISO 8601, RFC 2822, 2026-11-05 14:30, Unix seconds or milliseconds"
        ] = "now",
        zone: Annotated[
            str | None, "of a time without one, such as Europe/Berlin, +02:00; local by default"
        ] = None,
        to_zone: Annotated[str | None, "convert into this zone"] = None,
        add: Annotated[
            str | None, "P1M2DT3H, -P1W, or 3 days 2 hours; months keep the day where there is it"
        ] = None,
        until: Annotated[str | None, "another time: the difference is returned too"] = None,
    ) -> dict[str, Any]:
        """Tell the current time, read a date, convert time zones, add durations, count days between two dates. Returns
        ISO time, zone, weekday, week, day of year, Unix time."""
        from jaato.plugins.clock import datetimes

        moment = datetimes.read(when, zone)
        if add is not None:
            moment = datetimes.added(moment, add)
        if to_zone is not None:
            moment = datetimes.converted(moment, to_zone)
        said = datetimes.facts(moment)
        if until is not None:
            said["until"] = datetimes.difference(moment, datetimes.read(until, zone))
        return said
