"""The calls of a registry as its log has them: when, who, what, how it ended, by the ids others know them by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from jaato.abc.store import SessionRow, Store
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.server.registry.responses import code_for

TITLE = "registry: "
"""What the names of its sessions begin with."""
PAGE = 100
ACTION = "action"
"""What of an origin says that a tool was not called, but put or taken away."""


class AuditEntry(Struct, frozen=True, omit_defaults=True):
    """One call, or where there is an `action`, one tool that was put or deleted.

    `time` is ISO 8601 UTC, `outcome` is ok, unfinished, or the contract's code."""

    time: str
    who: str
    tool: str
    outcome: str
    ms: float | None = None
    message: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    flow_id: str | None = None
    step_id: str | None = None
    permission: str | None = None
    session: str = ""
    call: str = ""
    action: str | None = None
    version: str | None = None
    handler: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which calls are meant; None: any. `since` is ISO 8601 UTC."""

    request: str | None = None
    trace: str | None = None
    flow: str | None = None
    tool: str | None = None
    key: str | None = None
    since: str | None = None
    failed: bool = False

    def matches(self, entry: AuditEntry) -> bool:
        """Whether this is one of them."""
        return (
            self.request in (None, entry.request_id)
            and self.trace in (None, entry.trace_id)
            and self.flow in (None, entry.flow_id)
            and self.tool in (None, entry.tool)
            and (self.key is None or entry.who in (self.key, f"key {self.key}"))
            and (self.since is None or entry.time >= self.since)
            and not (self.failed and entry.outcome == "ok")
        )


@dataclass(slots=True)
class SessionReader:
    """One session as far as it is read: the calls whose end is still to come."""

    who: str
    seq: int = 0
    begun: dict[str, ToolCallStart] = field(default_factory=dict)

    def read(self, store: Store, session_id: str) -> Iterator[AuditEntry]:
        """The calls that have ended since it was last read, in that order."""
        for event in store.read(session_id, self.seq):
            self.seq = max(self.seq, event.seq)
            match event:
                case ToolCallStart():
                    self.begun[event.call_id] = event
                case ToolCallEnd():
                    yield entry_of(self.who, self.begun.pop(event.call_id, None), event)

    def read_unfinished(self) -> Iterator[AuditEntry]:
        """The calls of which there is no end."""
        return (entry_of(self.who, start, None) for start in self.begun.values())


def entry_of(who: str, start: ToolCallStart | None, end: ToolCallEnd | None) -> AuditEntry:
    """A call of which there are a start, an end or both; one that was refused has no start."""
    known: Event | None = start or end
    assert known is not None
    origin = (start.origin if start is not None else None) or (end.origin if end is not None else None) or {}
    problem = None if end is None else end.result.error
    outcome = "unfinished" if end is None else "ok"
    action = origin.get(ACTION)
    if end is not None and problem is not None:
        outcome = problem.code if action else code_for(problem, begun=end.permission is not None)
    tool = start.tool if start is not None else end.tool if end is not None else ""
    if action and start is not None:
        tool = str(start.arguments.get("name", ""))
    result = end.result.structured if action and end is not None else None
    result = result if isinstance(result, dict) else {}
    permission = (start.permission if start is not None else None) or (
        end.permission if end is not None else None
    )
    return AuditEntry(
        time=known.timestamp,
        who=who,
        tool=tool,
        outcome=outcome,
        ms=None if end is None else round(end.duration_s * 1e3, 3),
        message=None if problem is None else problem.message,
        request_id=origin.get("request_id"),
        trace_id=origin.get("trace_id"),
        flow_id=origin.get("flow_id"),
        step_id=origin.get("step_id"),
        permission=None if permission is None else f"{permission.decision}: {permission.reason}",
        session=known.session_id,
        call=start.call_id if start is not None else end.call_id if end is not None else "",
        action=action,
        version=result.get("version"),
        handler=result.get("handler"),
    )


def is_audit(row: SessionRow) -> bool:
    """Whether a session has the calls of a caller of a registry: named so, and without a model."""
    return row.provider == "" and (row.name or "").startswith(TITLE)


def who_of(row: SessionRow) -> str:
    """Whose calls a session has."""
    return (row.name or "").removeprefix(TITLE)


def audit_sessions(store: Store, since: str | None = None) -> Iterator[SessionRow]:
    """The sessions with calls, the last used first."""
    before = None
    while True:
        page = store.sessions(limit=PAGE, before=before)
        for row in page:
            if since is not None and row.updated_at < since:
                return
            if is_audit(row):
                yield row
        if len(page) < PAGE:
            return
        before = page[-1].cursor


class Audit:
    """The log, read once and then followed."""

    def __init__(self, store: Store, filter_: AuditFilter) -> None:
        self._store = store
        self._filter = filter_
        self._read: dict[str, SessionReader] = {}

    def newest(self, limit: int) -> list[AuditEntry]:
        """The newest calls, in the order they were made. Sessions in which none of them can be are not read."""
        found: list[AuditEntry] = []
        for row in audit_sessions(self._store, self._filter.since):
            if len(found) == limit and row.updated_at < found[0].time:
                break
            reading = self._read[row.id] = SessionReader(who_of(row))
            fitting = [one for one in reading.read(self._store, row.id) if self._filter.matches(one)]
            fitting += [one for one in reading.read_unfinished() if self._filter.matches(one)]
            found = sorted([*found, *fitting], key=lambda one: one.time)[-limit:]
        return found

    def more(self) -> list[AuditEntry]:
        """The calls that have ended since, in the order they were made."""
        found: list[AuditEntry] = []
        for row in self._store.sessions(limit=PAGE):
            if not is_audit(row):
                continue
            reading = self._read.get(row.id)
            if reading is None:
                reading = self._read[row.id] = SessionReader(who_of(row))
            if row.last_seq > reading.seq:
                found += [one for one in reading.read(self._store, row.id) if self._filter.matches(one)]
        return sorted(found, key=lambda one: one.time)

    def skip(self) -> None:
        """Take what there is for read, so that only what comes counts as more."""
        for row in self._store.sessions(limit=PAGE):
            if is_audit(row) and row.id not in self._read:
                self._read[row.id] = SessionReader(who_of(row), row.last_seq)
