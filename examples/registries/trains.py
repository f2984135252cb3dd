"""A domain of one tool."""

from jaato import tool


@tool(access="read")
def departures(station: str, after: str = "00:00") -> list[dict[str, str]]:
    """List the trains that leave from a station after a time of day."""
    trains = [{"time": "08:34", "to": "Zürich"}, {"time": "11:04", "to": "Brig"}]
    return [{"from": station, **train} for train in trains if train["time"] >= after]


def load_tools() -> list[object]:
    """What a registry finds here."""
    return [departures]
