"""The plugin `clock`: read dates, times and durations, convert time zones, add and compare."""

from __future__ import annotations

import re
import warnings
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated, Any, ClassVar

from jaato.abc.plugin import Plugin
from jaato.errors import ToolError
from jaato.tools.tool import tool

OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)
UNIX = re.compile(r"@?(-?\d{9,19}(?:\.\d{1,9})?)|@(-?\d{1,19}(?:\.\d{1,9})?)")
DIGITS = re.compile(
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?"
)
ISO = re.compile(r"\d{4}-")
ISO_DURATION = re.compile(r"([+-]?)P(?=.)([^T]*)(?:T(.+))?")
AMOUNT = re.compile(r"\s*([+-]?)\s*(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]+)[\s,]*", re.IGNORECASE)
UNITS = {
    "years": "year yr y", "months": "month mo mon", "weeks": "week wk w", "days": "day d", "hours": "hour hr h",
    "minutes": "minute min m", "seconds": "second sec s",
}  # fmt: skip
UNIT_OF = {word: unit for unit, words in UNITS.items() for word in words.split()}
MAX_CHARS = 100


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

        moment = parse_time(when, zone)
        if add is not None:
            moment = add_duration(moment, add)
        if to_zone is not None:
            moment = convert_zone(moment, to_zone)
        result = describe_time(moment)
        if until is not None:
            result["until"] = time_difference(moment, parse_time(until, zone))
        return result


class TimeRefused(ToolError):
    """The text is no time, zone or duration that is understood."""

    code = "time_refused"


def parse_time(text: str, zone: str | None) -> datetime:
    """The moment a text means; one without a zone is in `zone`, else local. Raises `TimeRefused`."""
    text = text.strip()
    if len(text) > MAX_CHARS:
        raise TimeRefused(f"A time has at most {MAX_CHARS} characters.")
    if text.lower() in ("now", ""):
        moment = datetime.now(UTC).astimezone()
        return convert_zone(moment, zone) if zone else moment
    try:
        found = parse_digits(text) or parse_unix(text) or parse_iso(text) or parse_loose(text)
        if found is None:
            raise TimeRefused(
                f"{text!r} is no time that is understood. Write it such as 2026-11-05T14:30:00+01:00, or 2026-11-05."
            )
        if found.tzinfo is None:
            return found.replace(tzinfo=find_zone(zone)) if zone else found.astimezone()
        return convert_zone(found, zone) if zone and UNIX.fullmatch(text) else found
    except (OverflowError, OSError, ValueError):
        raise TimeRefused(f"{text!r} lies outside the years 1 to 9999.") from None


def parse_digits(text: str) -> datetime | None:
    """A time of 14 digits, as logs and file names have it. Raises `TimeRefused` for one of 12, which could be either."""
    if DIGITS.fullmatch(text) is None:
        return None
    if len(text) == 12:
        raise TimeRefused(
            f"{text} could be a date or milliseconds. Write {text[:8]}T{text[8:]} for the date, @{text} for the other."
        )
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%S")  # noqa: DTZ007 one without a zone gets it later
    except ValueError:
        return None


def parse_unix(text: str) -> datetime | None:
    """Seconds, milliseconds, microseconds or nanoseconds since 1970, by the number of digits."""
    match = UNIX.fullmatch(text)
    if match is None:
        return None
    number = match[1] or match[2]
    whole = number.lstrip("-").partition(".")[0]
    scale = 10 ** (0 if len(whole) <= 11 else 3 if len(whole) <= 14 else 6 if len(whole) <= 17 else 9)
    sign = -1 if number.startswith("-") else 1
    seconds, rest = divmod(int(whole), scale)
    part = float(f"0.{number.partition('.')[2] or 0}") + rest / scale
    return datetime(1970, 1, 1, tzinfo=UTC) + sign * timedelta(
        seconds=seconds, microseconds=round(part * 1e6)
    )


def parse_iso(text: str) -> datetime | None:
    """A time in ISO 8601; one whose seconds are 60 is a leap second and counts as the next."""
    parts = text.rsplit(" ", 1)
    if len(parts) == 2 and "/" in parts[1]:  # 2026-11-05 14:30 Europe/Berlin
        inner = parse_iso(parts[0])
        return (
            None if inner is None or inner.tzinfo is not None else inner.replace(tzinfo=find_zone(parts[1]))
        )
    text = re.sub(
        r"^(\d{4})[/-](\d{1,2})[/-](\d{1,2})\b", lambda day: f"{day[1]}-{day[2]:0>2}-{day[3]:0>2}", text
    )
    text = re.sub(r"\s*(?:Z|UTC|GMT)$", "+00:00", text, flags=re.IGNORECASE)
    text = re.sub(r"\s+(?=[+-]\d\d:?\d\d$)", "", text)
    leap = re.fullmatch(r"(.*[T ]\d\d:?\d\d:?)60(.*)", text)
    try:
        if leap:
            return datetime.fromisoformat(f"{leap[1]}59{leap[2]}") + timedelta(seconds=1)
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_loose(text: str) -> datetime | None:
    """A time as people, mail and logs write it, where the order of day and month is certain and no part is missing."""
    from dateutil import parser

    if ISO.match(text) or not re.search(r"\d{4}", text):
        return None  # wrong, or its year would be a guess
    text = re.sub(r"^(\d\d/[a-z]{3}/\d{4}):", r"\1 ", text, flags=re.IGNORECASE)  # as Apache's log has it
    dotted = re.match(r"\d{1,2}\.\d{1,2}\.", text) is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a zone that is not known
            found = {
                parser.parse(text, default=default, dayfirst=first)
                for default in (datetime(2000, 1, 1), datetime(2003, 3, 3))  # noqa: DTZ001 what is missing differs
                for first in {True, dotted}
            }
    except (ValueError, Warning):
        return None
    return found.pop() if len(found) == 1 else None


def find_zone(name: str) -> tzinfo:
    """A zone by its name or offset. Raises `TimeRefused`."""
    name = name.strip()
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if name.lower() == "local":
        local = datetime.now(UTC).astimezone().tzinfo
        assert local is not None
        return local
    match = OFFSET.fullmatch(name)
    if match is not None:
        distance = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if distance >= timedelta(hours=24):
            raise TimeRefused(f"{name!r} is no offset: they are less than 24 hours.")
        return timezone(-distance if match[1] == "-" else distance)
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        known = available_timezones()
        if not known:
            raise TimeRefused("This machine has no time zone data. Give an offset such as +01:00.") from None
        import difflib

        wanted = name.replace(" ", "_").lower()
        near = [one for one in sorted(known) if one.lower().rsplit("/", 1)[-1] == wanted]
        near = near or difflib.get_close_matches(name, known, 3)
        hint = (
            f" Do you mean {', '.join(near[:3])}?" if near else " Write it such as Europe/Berlin or +02:00."
        )
        raise TimeRefused(f"{name[:60]!r} is no time zone that is known.{hint}") from None


def convert_zone(moment: datetime, zone: str) -> datetime:
    """The same moment in another zone. Raises `TimeRefused`."""
    try:
        return moment.astimezone(find_zone(zone))
    except OverflowError:
        raise TimeRefused("In that zone the time lies outside the years 1 to 9999.") from None


def parse_duration(text: str) -> dict[str, float]:
    """A duration as so many of each unit, all with its sign. Raises `TimeRefused`."""
    text = text.strip()
    refusal = TimeRefused(
        f"{text[:60]!r} is no duration. Write it such as P1M2DT3H, -P1W, or 3 days 2 hours."
    )
    if not text or len(text) > MAX_CHARS:
        raise refusal
    match = ISO_DURATION.fullmatch(text.upper())
    if match is not None:
        text = f"{match[1]}{match[2].replace('M', ' months ')}{match[3] or ''}"
    amounts = dict.fromkeys(UNITS, 0.0)
    place = 0
    sign = 1
    while place < len(text):
        match = AMOUNT.match(text, place)
        word = match[3].lower() if match else ""
        unit = UNIT_OF.get(word) or UNIT_OF.get(word.removesuffix("s"))
        if match is None or unit is None:
            raise refusal
        sign = {"-": -1, "+": 1}.get(match[1], sign)
        amounts[unit] += sign * float(match[2])
        place = match.end()
    return amounts


def add_duration(moment: datetime, text: str) -> datetime:
    """A time later or earlier: months and days by the calendar, hours and less by the clock that never jumps.

    Raises `TimeRefused`.
    """
    from dateutil.relativedelta import relativedelta

    amounts = parse_duration(text)
    years, months, weeks, days, *exact = amounts.values()
    if years % 1 or months % 1:
        raise TimeRefused("Years and months are whole numbers here. Use days for parts of them.")
    try:
        dated: datetime = moment + relativedelta(years=int(years), months=int(months))
        dated += timedelta(weeks=weeks, days=days)
        if not any(exact):
            return dated
        hours, minutes, seconds = exact
        later = dated.astimezone(UTC) + timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return later.astimezone(dated.tzinfo)
    except (OverflowError, ValueError):
        raise TimeRefused("The result lies outside the years 1 to 9999.") from None


def format_time(moment: datetime) -> tuple[datetime, str]:
    """The time as the clocks of its zone show it, and what is to be known where they are set forward or back."""
    from dateutil import tz

    try:
        if not tz.datetime_exists(moment):
            skipped = moment.replace(tzinfo=None).isoformat(" ", "minutes")
            note = f"The clocks are set forward past {skipped}; it is counted on from before."
            there: datetime = tz.resolve_imaginary(moment)
            return there, note
        if not tz.datetime_ambiguous(moment):
            return moment, ""
    except OverflowError:
        return moment, ""
    other = moment.replace(fold=1 - moment.fold).isoformat(timespec="seconds")
    return moment, f"The clocks are set back and show this twice; the other is {other}."


def describe_time(moment: datetime) -> dict[str, Any]:
    """The fields of a time for the result."""
    moment, note = format_time(moment)
    year, week, _ = moment.isocalendar()
    result: dict[str, Any] = {
        "iso": moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds"),
        "zone": getattr(moment.tzinfo, "key", None) or moment.tzname() or "",
        "weekday": moment.strftime("%A"),
        "week": f"{year:04}-W{week:02}",
        "day_of_year": moment.timetuple().tm_yday,
    }
    if note:
        result["note"] = note
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        return result
    since = utc - datetime(1970, 1, 1, tzinfo=UTC)
    result["utc"] = utc.isoformat(timespec="seconds").replace("+00:00", "Z")
    result["unix"] = since // timedelta(seconds=1)
    return result


def time_difference(start: datetime, end: datetime) -> dict[str, Any]:
    """How far it is from one moment to another: exactly, and by the calendar of the first one's zone."""
    try:
        exact = end.astimezone(UTC) - start.astimezone(UTC)
        there = end.astimezone(start.tzinfo)
    except OverflowError:
        raise TimeRefused("The times are too close to the year 1 or 9999.") from None
    size = abs(exact)
    hours, rest = divmod(size.seconds, 3600)
    words = f"{size.days} days {hours} hours {rest // 60} minutes {rest % 60} seconds"
    return {
        "iso": there.isoformat(timespec="seconds"),
        "total_seconds": exact.total_seconds(),
        "exact": f"-({words})" if exact < timedelta(0) else words,
        "calendar_days": (there.date() - start.date()).days,
        "weekdays_between": count_weekdays(start, there),
    }


def count_weekdays(start: datetime, end: datetime) -> int:
    """Mondays to Fridays from the one date on, before the other."""
    first, last = sorted((start.date(), end.date()))
    days = (last - first).days
    weeks, rest = divmod(days, 7)
    count = weeks * 5 + sum((first.weekday() + step) % 7 < 5 for step in range(rest))
    return count if end >= start else -count
