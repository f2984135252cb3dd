"""What a query says: the parameters a route knows, each checked; others are ignored, as those of clients that know more."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from jaato.protocol.arp import LIST_PATH, InvalidShape

MAX_PARAMETERS = 100
MAX_TEXT_CHARS = 1_000
MAX_TAGS = 16
MAX_TAG_CHARS = 100
MAX_LIMIT = 1_000
LIMIT = re.compile(r"[1-9][0-9]{0,3}")


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


class Wanted(NamedTuple):
    """What of the list is asked for: `text` is searched for, all `tags` must hold, `limit` 0 is no limit."""

    text: str
    tags: tuple[str, ...]
    limit: int
    cursor: str

    def page(self, cursor: str) -> str:
        """The address of another page."""
        given = [("q", self.text)] if self.text else []
        given += [("tag", tag) for tag in self.tags]
        given += [("limit", str(self.limit))] if self.limit else []
        return f"{LIST_PATH}?{urlencode([*given, ('cursor', cursor)])}"


def wanted(query: bytes) -> Wanted:
    """What of the list a query asks for. Raises `InvalidShape`."""
    given = parameters(query)
    texts = given.get("q", [""])
    if len(texts) > 1:
        raise InvalidShape(f"q= stands {len(texts)} times; give it once.")
    text = texts[0].strip()
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidShape(f"q= has {len(text):,} characters, and may have {MAX_TEXT_CHARS:,}.")
    tags = tuple(given.get("tag", ()))
    if len(tags) > MAX_TAGS or not all(0 < len(tag) <= MAX_TAG_CHARS for tag in tags):
        raise InvalidShape(
            f"tag= may stand {MAX_TAGS} times, each with a tag of 1 to {MAX_TAG_CHARS} characters."
        )
    limit = once(given, "limit")
    if limit is not None and not (LIMIT.fullmatch(limit) and int(limit) <= MAX_LIMIT):
        raise InvalidShape(f"limit= is a whole number from 1 to {MAX_LIMIT:,}.")
    return Wanted(text, tuple(dict.fromkeys(tags)), int(limit or 0), once(given, "cursor") or "")
