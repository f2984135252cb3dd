"""`date_time` beside GNU date and the calendar."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins import clock as datetimes
from jaato.plugins.clock import ClockPlugin

DATE = shutil.which("date") or ""


def ask(**arguments: Any) -> dict[str, Any]:
    """What the tool says."""
    said: dict[str, Any] = Desk(ClockPlugin, Path("/tmp")).call("date_time", **arguments)
    return said


def test_now_is_now() -> None:
    """Without arguments it tells the present, in any zone that is asked for."""
    before = datetime.now(UTC)
    said = ask(zone="Asia/Tokyo")
    assert said["zone"] == "Asia/Tokyo"
    assert before <= datetime.fromisoformat(said["iso"]) <= datetime.now(UTC)
    assert abs(said["unix"] - before.timestamp()) < 60


@pytest.mark.parametrize(
    ("when", "utc"),
    [
        ("2026-11-05T14:30:00+01:00", "2026-11-05T13:30:00Z"),
        ("2026-11-05T14:30:00Z", "2026-11-05T14:30:00Z"),
        ("2026-11-05 14:30 Europe/Berlin", "2026-11-05T13:30:00Z"),
        ("20261105T143000Z", "2026-11-05T14:30:00Z"),
        ("2026-W45-4", "2026-11-05T00:00:00Z"),
        ("2026-11-05", "2026-11-05T00:00:00Z"),
        ("Thu, 05 Nov 2026 14:30:00 +0100", "2026-11-05T13:30:00Z"),
        ("Thu, 05 Nov 2026 14:30:00 GMT", "2026-11-05T14:30:00Z"),
        ("05/Nov/2026:14:30:00 +0000", "2026-11-05T14:30:00Z"),
        ("2026/11/5 14:30", "2026-11-05T14:30:00Z"),
        ("31/12/2026", "2026-12-31T00:00:00Z"),
        ("Thu Nov  5 14:30:00 2026", "2026-11-05T14:30:00Z"),
        ("2026-11-05 14:30:00 +0100", "2026-11-05T13:30:00Z"),
        ("5 November 2026", "2026-11-05T00:00:00Z"),
        ("05.11.2026 14:30", "2026-11-05T14:30:00Z"),
        ("1793889000", "2026-11-05T14:30:00Z"),
        ("1793889000500", "2026-11-05T14:30:00Z"),
        ("@0", "1970-01-01T00:00:00Z"),
        ("-1000000000", "1938-04-24T22:13:20Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
    ],
)
def test_times_are_read_as_people_and_programs_write_them(when: str, utc: str) -> None:
    """ISO 8601, RFC 2822, logs and Unix time come to the same moment."""
    assert ask(when=when, zone="UTC")["utc"] == utc


def test_zones_are_converted_and_summer_time_is_kept() -> None:
    """A time moves between zones; a day later is the same hour of the day, 24 hours later are 24 hours."""
    assert (
        ask(when="2026-07-01T12:00", zone="Europe/Berlin", to_zone="America/New_York")["iso"]
        == "2026-07-01T06:00:00-04:00"
    )
    assert ask(when="2026-03-28T12:00", zone="Europe/Berlin", add="P1D")["iso"] == "2026-03-29T12:00:00+02:00"
    assert (
        ask(when="2026-03-28T12:00", zone="Europe/Berlin", add="24 hours")["iso"]
        == "2026-03-29T13:00:00+02:00"
    )
    assert ask(when="2026-01-01T00:00Z", to_zone="+05:30")["iso"] == "2026-01-01T05:30:00+05:30"


@pytest.mark.parametrize(
    ("when", "add", "wanted"),
    [
        ("2024-01-31", "P1M", "2024-02-29"), ("2024-02-29", "P1Y", "2025-02-28"), ("2024-03-31", "-1 month", "2024-02-29"),
        ("2024-12-31", "1 day", "2025-01-01"), ("2024-01-01", "-P1W", "2023-12-25"),
        ("2024-01-01", "2 years 3 months, 4 days", "2026-04-05"),
        ("2024-01-01", "-1d 24h", "2024-01-01"),
        ("2024-01-15", "P2W3D", "2024-02-01"), ("2024-01-01", "1.5 days 12 hours", "2024-01-03"),
    ],
)  # fmt: skip
def test_durations_are_added_by_the_calendar(when: str, add: str, wanted: str) -> None:
    """Months keep the day where there is it; signs carry on; ISO and words mean the same."""
    if add == "-1d 24h":
        wanted = "2023-12-30"  # the sign holds for what follows
    assert ask(when=when, add=add, zone="UTC")["iso"].startswith(wanted)


def test_the_time_between_two_is_counted() -> None:
    """Exact seconds, calendar days and working days, backwards with a sign."""
    said = ask(when="2024-02-26", until="2024-03-04", zone="UTC")["until"]
    assert said == {
        "iso": "2024-03-04T00:00:00+00:00", "total_seconds": 604800.0, "exact": "7 days 0 hours 0 minutes 0 seconds",
        "calendar_days": 7, "weekdays_between": 5,
    }  # fmt: skip
    back = ask(when="2024-03-04", until="2024-02-26T12:00", zone="UTC")["until"]
    assert (back["calendar_days"], back["weekdays_between"]) == (-7, -5)
    assert back["exact"].startswith("-(6 days 12 hours")
    summer = ask(when="2026-03-28T12:00", until="2026-03-29T12:00", zone="Europe/Berlin")["until"]
    assert (summer["total_seconds"], summer["calendar_days"]) == (82_800.0, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"when": "nonsense"}, {"when": "2026-13-01"}, {"when": "2026-02-30"}, {"when": "05/06/2026"}, {"when": "2026/13/01"},
        {"when": "13.13.2026"}, {"when": "12:30"}, {"when": "November 2026"}, {"when": "Monday 2026"}, {"when": "5 Nov 2026 14:30 CET"},
        {"when": "x" * 10_000},
        {"when": "9" * 19 + "9"}, {"zone": "Mars/Olympus"}, {"zone": "../../etc/passwd"}, {"zone": "/etc/localtime"}, {"zone": "+99:00"},
        {"zone": "\0"}, {"zone": "x" * 5000}, {"add": "5 parsecs"}, {"add": "P"}, {"add": ""}, {"add": "1.5 months"},
        {"when": "9999-12-31", "add": "P1D"}, {"when": "0001-01-01", "add": "-P1D"}, {"add": "P999999999Y"}, {"add": "9e99 days"},
        {"when": "0001-01-01T00:00+14:00", "until": "2020-01-01"}, {"until": "soon"},
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_with_an_example(arguments: dict[str, Any]) -> None:
    """No guess at an ambiguous date, no zone from a path, no overflow."""
    with pytest.raises(ToolError):
        ask(**arguments)


def test_a_zone_that_is_nearly_right_is_proposed() -> None:
    """A city without its continent brings up the zone."""
    with pytest.raises(ToolError, match="Europe/Berlin"):
        ask(zone="Berlin")


@pytest.mark.skipif(not DATE, reason="date is not installed")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("unix", [0, 951_782_400, 1_774_746_000, 4_102_444_800])
def test_gnu_date_tells_the_same(zone: str, unix: int) -> None:
    """ISO time, weekday, week and day of the year are those of the program."""
    out = subprocess.run(
        [DATE, "-d", f"@{unix}", "+%Y-%m-%dT%H:%M:%S|%A|%G-W%V|%-j"],
        env={"TZ": zone, "LC_ALL": "C"}, capture_output=True, text=True, check=True,
    ).stdout.strip().split("|")  # fmt: skip
    said = ask(when=f"@{unix}", zone=zone)
    assert [said["iso"][:19], said["weekday"], said["week"], str(said["day_of_year"])] == out


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.integers(-10_000, 10_000))
def test_days_add_up(start: datetime, days: int) -> None:
    """Adding days and counting them are inverse."""
    begin = start.replace(tzinfo=UTC)
    later = datetimes.add_duration(begin, f"{days} days")
    assert later - begin == timedelta(days=days)
    assert datetimes.time_difference(begin, later)["calendar_days"] == days


def test_digits_in_a_row_are_the_date_they_look_like() -> None:
    """A time stamp of fourteen digits is a date; one of twelve could be either, which is said; others count from 1970."""
    assert ask(when="20261105143000", zone="Europe/Berlin")["utc"] == "2026-11-05T13:30:00Z"
    assert ask(when="@20261105143000")["unix"] == 20261105143
    with pytest.raises(ToolError, match="Write 20261105T1430 for the date, @202611051430"):
        ask(when="202611051430")
    assert ask(when="20261105T1430", zone="UTC")["utc"] == "2026-11-05T14:30:00Z"
    assert ask(when="20260230143000", zone="UTC")["unix"] == 20260230143
    assert ask(when="1793889000000", zone="UTC")["utc"] == "2026-11-05T14:30:00Z"


def test_a_time_that_clocks_skip_or_show_twice_is_told() -> None:
    """No time is given that no clock shows, and of two equal ones the other is named."""
    said = ask(when="2026-03-29T02:30", zone="Europe/Berlin")
    assert (said["iso"], said["utc"]) == ("2026-03-29T03:30:00+02:00", "2026-03-29T01:30:00Z")
    assert "2026-03-29 02:30" in said["note"]
    assert (
        ask(when="2026-03-28T02:30", zone="Europe/Berlin", add="1 day")["iso"] == "2026-03-29T03:30:00+02:00"
    )
    said = ask(when="2026-10-25T02:30", zone="Europe/Berlin")
    assert said["utc"] == "2026-10-25T00:30:00Z"
    assert "2026-10-25T02:30:00+01:00" in said["note"]
    assert "note" not in ask(when="2026-10-25T03:30", zone="Europe/Berlin")
    assert "note" not in ask(when="0001-01-01T00:00:00+14:00")
