"""The log of calls is kept within bounds: a session that has grown gives way to a new one, and old ones are removed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass

from jaato.abc.store import Store
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import Text
from jaato.server.registry.audit import audits
from jaato.settings import Settings

LOG = logger("server.registry")
MAX_CALLS = 5_000
MAX_SIZE_BYTES = 16_000_000
CALL_BYTES = 600
"""What a call takes beside its arguments and its result."""


class Weight:
    """How much a session has of calls; nothing of it is measured while a call waits but the length of its arguments."""

    def __init__(self, session: Session) -> None:
        self.empty()
        session.journal.bus.listen(self.heard)

    def empty(self) -> None:
        """Begin to count."""
        self.calls = self.size_bytes = 0

    @property
    def full(self) -> bool:
        """Whether it is time for another."""
        return self.calls >= MAX_CALLS or self.size_bytes >= MAX_SIZE_BYTES

    def heard(self, event: Event) -> None:
        """An event of the session."""
        if type(event) is ToolCallEnd:
            self.calls += 1
            for one in event.result.content:
                if isinstance(one, Text):
                    self.size_bytes += len(one.text)
            if event.arguments is not None:
                self.size_bytes += CALL_BYTES + len(encode(event.arguments))
        elif type(event) is ToolCallStart:
            self.size_bytes += CALL_BYTES + len(encode(event.arguments))


@dataclass(frozen=True, slots=True)
class Kept:
    """How much of the log is kept; None: all of it."""

    days: float | None = None
    size_bytes: float | None = None


def kept_by(settings: Settings) -> Kept:
    """What the settings say. Raises `ConfigError` for what is no number from zero up."""
    for name in ("tool_registry_log_days", "tool_registry_log_mb"):
        if not 0 <= settings[name] < math.inf:
            raise ConfigError(f"{name} = {settings[name]}: take a number from zero up; 0 keeps all of it.")
    return Kept(settings["tool_registry_log_days"] or None, settings["tool_registry_log_mb"] * 1e6 or None)


def remove_old(store: Store, kept: Kept, sizes: dict[str, int], goes_on: Callable[[], bool]) -> int:
    """Remove the sessions of calls that are beyond what is kept, the oldest first to go; gives how many. Slow, so not for
    the loop. `sizes` remembers those of sessions that grow no more; it stops between two sessions when `goes_on` says no."""
    if (kept.days is None and kept.size_bytes is None) or store.read_only:
        return 0
    until = ""
    if kept.days is not None:
        days = min(kept.days, 36_500.0)
        until = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
    total, removed, known = 0, 0, {}
    for row in list(audits(store)):
        if not goes_on():
            break
        at_work = store.holder(row.id) is not None
        if kept.size_bytes is not None:
            size = None if at_work else sizes.get(row.id)
            known[row.id] = size = store.size_bytes(row.id) if size is None else size
            total += size
        if at_work or not (
            row.updated_at < until or (kept.size_bytes is not None and total > kept.size_bytes)
        ):
            continue
        try:
            store.delete(row.id)
            removed += 1
        except JaatoError as error:
            LOG.info("The calls of session %s stay: %s", row.id, error)
    sizes.clear()
    sizes.update(known)
    return removed
