"""What a query says: the parameters a route knows, each checked; others are ignored, as those of clients that know more."""

from __future__ import annotations

from urllib.parse import parse_qsl

from jaato.protocol.arp import InvalidShape

MAX_PARAMETERS = 100


def parameters(query: bytes) -> dict[str, list[str]]:
    """The values of each parameter, in the order they are in. Raises `InvalidShape` for what is no UTF-8, or too much."""
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except UnicodeDecodeError:
        raise InvalidShape("The query is not UTF-8, percent-encoded.") from None
    except ValueError:
        raise InvalidShape(f"A query has at most {MAX_PARAMETERS} parameters.") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def once(given: dict[str, list[str]], name: str) -> str | None:
    """The value of a parameter, None without it. Raises `InvalidShape` where it stands twice or is empty."""
    values = given.get(name)
    if values is None:
        return None
    if len(values) > 1:
        raise InvalidShape(f"{name}= stands {len(values)} times; give it once.")
    if not values[0]:
        raise InvalidShape(f"{name}= is empty; leave it out, or give a value.")
    return values[0]


def version_of(query: bytes) -> str | None:
    """Which version of a tool is asked for, None for the newest. Raises `InvalidShape`."""
    return once(parameters(query), "version") if query else None
