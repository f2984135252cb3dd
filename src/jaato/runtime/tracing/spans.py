"""A span, and its ids: the same for the same piece of work however often and by whom it is folded."""

from __future__ import annotations

import datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct

INTERNAL, CLIENT = 1, 3
"""Kinds of span, as OTLP numbers them: work within this process, and a request to somebody else."""
MAX_NS = 2**63 - 1
Value = str | bool | int | float | list[str]


class Span(Struct, frozen=True, kw_only=True):
    """One piece of work. Times are nanoseconds since 1970, `end_ns` None while it goes on; `problem` is the error's code,
    empty where it ended well."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    kind: int = INTERNAL
    start_ns: int
    end_ns: int | None
    attributes: dict[str, Value] = {}
    problem: str = ""

    @property
    def operation(self) -> str:
        """What it is: `invoke_agent`, `chat`, `execute_tool`, `permission`, …"""
        return self.name.partition(" ")[0]


def trace_id(*what: str) -> str:
    """16 bytes in hex that these words always give."""
    return digest(16, what)


def span_id(*what: str) -> str:
    """8 bytes in hex that these words always give."""
    return digest(8, what)


def digest(size: int, what: tuple[str, ...]) -> str:
    """A hash of words, in hex."""
    data = "\0".join(what).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=size, person=b"jaato.trace").hexdigest()


def ns_of(timestamp: str) -> int | None:
    """An event's time as nanoseconds since 1970; None for what is no time of that range."""
    try:
        moment = datetime.datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        past = moment - EPOCH
    except (ValueError, OverflowError):
        return None
    found = ((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds) * 1_000
    return found if 0 <= found <= MAX_NS else None


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def present(attributes: dict[str, Any]) -> dict[str, Value]:
    """The attributes that have a value."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}
