"""The interface of a session store: append-only logs with leases, snapshots of their state, and blobs by their hash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Meta, Struct, field

from jaato.errors import StoreError
from jaato.protocol.events import Event
from jaato.protocol.specs import SessionEntry

if TYPE_CHECKING:
    from jaato.protocol.usage import UsageRecord

SessionRow = SessionEntry
"""What a list of sessions shows; what only a running session knows is not set."""


class InvalidEvent(StoreError):
    """An event that no store can take; `index` is its place among those that were to be appended."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class Hit(Struct, frozen=True):
    """A session that a search has found: the event where the words stand, and a line around the first of them."""

    row: SessionRow
    seq: int
    snippet: str


class Hits(Struct, frozen=True):
    """What a search has found; `complete` is False while a part of the store has not been looked at: search again."""

    found: list[Hit]
    complete: bool = True


class Retention(Struct, frozen=True):
    """How much is kept; None: all. `sessions` counts the newest, `size_bytes` their logs and results together."""

    days: float | None = None
    sessions: int | None = None
    size_bytes: int | None = None


class VacuumReport(Struct, frozen=True):
    """What maintenance did, or would do: sessions removed, those kept because they are at work, and why files stay large."""

    removed: list[SessionRow]
    held: list[str]
    freed_bytes: int = 0
    note: str = ""


class Damaged(Struct, frozen=True):
    """A record that could not be read; it hides nothing else."""

    session_id: str
    seq: int
    reason: str


MISSING = "it is missing from the log"


def lost_start_error(path: Path, session_id: str, first: Damaged | None, damaged: int) -> StoreError:
    """The error for a session whose first record cannot be read, of so many `damaged` ones; `first` is the first of these."""
    reason = first.reason if first is not None and first.seq == 1 else MISSING
    others = damaged - 1
    return StoreError(
        f"Session {session_id} in {path} cannot be opened: its first record, which names its workspace, is damaged"
        f"{f', as are {others:,} others' if others > 0 else ''} ({reason}). Nothing was changed. `jaato sessions export "
        f"{session_id}` saves what can be read; put a copy of {path.name} from a backup in its place to resume the session."
    )


class UsageRow(Struct, frozen=True):
    """The session whose usage a record is."""

    session_id: str
    name: str | None
    workspace: str
    created_at: str


class UsageQuery(Struct, frozen=True):
    """Whose usage is read: since a time (ISO 8601 UTC) in a session or workspace, without one session.

    `read_up_to` has the last event read of each session, `own` the sessions of which one was not copied: a second reading
    with the same query gives what is new.
    """

    since: str = ""
    session_id: str | None = None
    workspace: str | None = None
    except_session: str = ""
    read_up_to: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


class UsageReader(Protocol):
    """Reads what sessions have used."""

    def read(self, query: UsageQuery) -> Iterator[tuple[UsageRow, UsageRecord | Damaged]]:
        """What sessions have used, in order; a `Damaged` for each unreadable record. Slow, so not for the loop."""
        ...


class BudgetDay(Struct, frozen=True):
    """The day that a day's budget is about (ISO 8601, UTC), and which sessions have worked in it with a clock that showed an
    earlier one: each with the number of the event after which that was so."""

    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")] = ""
    late: dict[str, int] = {}


class DayLedger(Protocol):
    """What sessions have reserved of the day's budget, shared by all processes of a store. Raises `StoreError`s."""

    def try_lock(self) -> Callable[[], None] | None:
        """Lock the ledger; returns the function that unlocks it, None while another process or session has it."""
        ...

    def load_day(self) -> BudgetDay: ...

    def save_day(self, day: BudgetDay) -> None: ...

    def read_reserved(self, except_session: str) -> tuple[int, float]:
        """Tokens and US dollars that the other living sessions have reserved."""
        ...

    def reserve(self, session_id: str, tokens: int, usd: float) -> None:
        """Say what a session has reserved now, in all. More than before needs the lock."""
        ...


class Holder(Struct, frozen=True):
    """Who has a session for writing: a process, the machine it runs on, and what it is; `since` is ISO 8601 UTC.

    `fence` is higher than that of every holder before.
    """

    session_id: str
    fence: int
    pid: int
    host: str
    what: str
    since: str

    def __str__(self) -> str:
        return f"{self.what} ({self.pid} on {self.host}, since {self.since})"


KEEP_ALL = Retention()


class Log(Protocol):
    """The logs of sessions. Every method raises `StoreError`s; an append is durable against kill -9 when it returns.

    `append` takes events whose `seq` continues the log without a gap and raises `SessionBusy` when another process holds
    the session or has appended meanwhile. `read` yields events in order and `Damaged` for what cannot be decoded.
    """

    path: Path
    """The file that has them."""
    read_only: bool
    refusal: str
    """Why it cannot be written; empty when it can."""

    def create(self, first: Sequence[Event]) -> None: ...

    def append(self, events: Sequence[Event]) -> None: ...

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Event | Damaged]: ...

    def last_seq(self, session_id: str) -> int: ...

    def size_bytes(self, session_id: str) -> int:
        """How much its log and its results take; 0 for one that is not there. In pieces, so that no append waits for it."""
        ...

    def find(self, text: str, workspace: str | None = None) -> str:
        """The id of the session with this id, unique prefix or name; raises `SessionNotFound`."""
        ...

    def named(self, name: str) -> list[SessionRow]:
        """Those with exactly this name, in every workspace, newest first."""
        ...

    def sessions(
        self, workspace: str | None = None, limit: int = 50, before: str | None = None
    ) -> list[SessionRow]:
        """One page, newest first; `before` is the `cursor` of the last row of the page before."""
        ...

    def search(
        self, query: str, workspace: str | None = None, limit: int = 50, before: str | None = None
    ) -> Hits:
        """One page of the sessions that have all words of a query; slow, so not for the loop."""
        ...

    def fork(
        self, session_id: str, seq: int | None = None, name: str | None = None, made: str | None = None
    ) -> str:
        """A new session with what this one has up to `seq`; returns its id, which may be given. Slow, so not for the loop."""
        ...

    def delete(self, session_id: str) -> None:
        """Delete a session; it is in no list from the first moment on. Slow, so not for the loop."""
        ...

    def close(self) -> None: ...


class Store(Log, Protocol):
    """Where sessions live: their logs, who writes them, and blobs."""

    @property
    def usage(self) -> UsageReader: ...

    @property
    def day_ledger(self) -> DayLedger: ...

    def hold(self, session_id: str) -> None:
        """Take the lease of a session, to be its only writer; raises `SessionBusy` naming the holder. Freed when a holder dies."""
        ...

    def release(self, session_id: str, *, unfinished: bool = False) -> None:
        """Let others write a session; with `unfinished` it is one of `abandoned_sessions`."""
        ...

    def holder(self, session_id: str) -> Holder | None:
        """The living process that has the session's lease, or None."""
        ...

    def abandoned_sessions(self) -> list[str]:
        """The sessions that were open in a process when it died, or were left unfinished, until they are held or cleared."""
        ...

    def clear_abandoned(self, session_id: str) -> None: ...

    def put_blob(self, session_id: str, data: bytes) -> str:
        """Keep bytes for a session; returns their SHA-256 in hex. The same bytes are stored once."""
        ...

    def put_blob_file(self, session_id: str, path: Path) -> str:
        """Keep a copy of a file of any size, in bounded memory; returns its SHA-256 in hex."""
        ...

    def get_blob(self, session_id: str, digest: str, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a blob of this session; raises `StoreError` for one of another session."""
        ...

    def blob_size(self, session_id: str, digest: str) -> int: ...

    def load_snapshot(self, session_id: str) -> bytes | None:
        """What `save_snapshot` has kept last of a session, None when nothing is there any more."""
        ...

    def save_snapshot(self, session_id: str, data: bytes) -> None:
        """Keep what was made of a long log, so that it need not be made again. It goes with the session."""
        ...

    def import_bundle(self, path: Path, workspace: Path, name: str | None = None) -> str:
        """A new session from a bundle; returns its id. Raises `StoreError`, and stores nothing then."""
        ...

    def vacuum(self, kept: Retention = KEEP_ALL, *, dry_run: bool = False) -> VacuumReport:
        """Remove the sessions beyond what is kept, and everything that belongs to none. Slow, so not for the loop."""
        ...
