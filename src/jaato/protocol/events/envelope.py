"""The fields every event has: session, agent, sequence number, timestamp."""

from __future__ import annotations

import time
from typing import ClassVar

from msgspec import Struct, field


def now() -> str:
    """The present moment as ISO 8601 in UTC, to the millisecond; its text is made once a millisecond."""
    global MOMENT
    milliseconds = time.time_ns() // 1_000_000
    known, text = MOMENT
    if milliseconds != known:
        second, rest = divmod(milliseconds, 1000)
        if second != known // 1000:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        text = f"{text[:19]}.{rest:03d}Z"
        MOMENT = (milliseconds, text)
    return text


MOMENT = (-1, "")


class EventBase(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event has."""

    durable: ClassVar[bool] = True

    session_id: str
    agent_id: str
    seq: int
    timestamp: str = field(default_factory=now)


class Ephemeral(EventBase, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """What is shown and not stored."""

    durable: ClassVar[bool] = False
