"""What every event has."""

from __future__ import annotations

import time
from typing import ClassVar

from msgspec import Struct, field


def now() -> str:
    """The present moment as ISO 8601 in UTC, to the millisecond; its text up to the second is made once a second."""
    global SECOND
    moment = time.time()
    second = int(moment)
    known, text = SECOND
    if second != known:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        SECOND = (second, text)
    return f"{text}.{int((moment - second) * 1000):03d}Z"


SECOND = (-1, "")


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
