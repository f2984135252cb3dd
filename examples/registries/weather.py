"""A domain of one tool."""

from jaato import tool


@tool(access="read")
def forecast(city: str) -> dict[str, object]:
    """Get the weather of tomorrow in a city."""
    return {"city": city, "weather": "rain from noon", "high_c": 14}


def load_tools() -> list[object]:
    """What a registry finds here."""
    return [forecast]
