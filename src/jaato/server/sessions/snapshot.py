"""The state of a stored session from its log: piece by piece, so that the loop is never held, and for a long log from what
an earlier fold has left in the store.

What is kept says by which code it was made, and at which event: where either is another now, the log is folded from its
first event.
"""

# Annotations are not postponed here: msgspec would compile each one as text.

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jaato.abc.store import Damaged, Store, lost_start_error
from jaato.agent.event_redaction import redact_struct
from jaato.client import state as code
from jaato.client.state import apply, size_of
from jaato.errors import StoreError
from jaato.log import logger
from jaato.protocol import messages, specs
from jaato.protocol.codec import encode
from jaato.protocol.events import Event
from jaato.protocol.events import state as shape
from jaato.protocol.events.state import State
from jaato.server.sessions.idempotency import RecentRequests
from jaato.tools.redaction.redactor import Redactor
from jaato.version import __version__

LOG = logger("server")
AT_ONCE = 64
"""Events folded per step: about a millisecond."""
SAVE_AFTER = 2_000
"""The number of new events that makes a new snapshot worthwhile."""


class SavedState(msgspec.Struct, frozen=True):
    """A state as of an event, with what tells whether it still holds."""

    made_by: str
    session_id: str
    seq: int
    event: str
    """A hash of that event."""
    state: State


SAVED_STATE = msgspec.json.Decoder(SavedState)


class StateFold:
    """One stored session on its way to a state. Iterate it; `state` is whole at the end, as of the last event that was
    stored when it began. Raises `SessionNotFound`, and `StoreError` for a log without its first record."""

    def __init__(self, store: Store, secrets: Redactor, session_id: str) -> None:
        self._store = store
        self._secrets = secrets
        self._session_id = session_id
        self._last: Event | None = None
        self._folded = self._damaged = 0
        self._first_damaged: Damaged | None = None
        self._state, self._records = load_start(store, session_id)
        self.recall = RecentRequests(self._state.entries)
        """Recent answers and messages."""

    def __iter__(self) -> Iterator[None]:
        state = self._state
        for record in self._records:
            self._last = None
            if isinstance(record, Damaged):
                self._damaged += 1
                self._first_damaged = self._first_damaged or record
            else:
                self._last = record
                apply(state, record)
                self.recall.keep(record)
            self._folded += 1
            if self._folded % AT_ONCE == 0:
                yield
        if not state.session_id:
            raise lost_start_error(self._store.path, self._session_id, self._first_damaged, self._damaged)
        if self._last is not None and self._folded >= SAVE_AFTER and not self._store.read_only:
            self._keep(self._last)

    @property
    def state(self) -> State:
        """The state, without what is secret here. It is masked once in the end: little of a long log is in it."""
        if not self._secrets.active:
            return self._state
        state = redact_struct(self._state, self._secrets)
        state.chars = sum(map(size_of, state.entries))
        return state

    def _keep(self, last: Event) -> None:
        """Keep it for the next time, where that can be done."""
        kept = SavedState(get_fold_version(), self._session_id, last.seq, digest_of(last), self._state)
        try:
            self._store.save_snapshot(self._session_id, encode(kept))
        except StoreError as error:
            LOG.debug("What was folded of %s was not kept: %s", self._session_id, error)


def load_start(store: Store, session_id: str) -> tuple[State, Iterator[Event | Damaged]]:
    """A state to begin with, and the records after it."""
    data = store.load_snapshot(session_id)
    try:
        kept = SAVED_STATE.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kept = None
    if kept is None or (kept.made_by, kept.session_id) != (get_fold_version(), session_id):
        return State(), store.read(session_id)
    records = store.read(session_id, kept.seq - 1)
    first = next(records, None)
    if not isinstance(first, Event) or digest_of(first) != kept.event or kept.state.seq != kept.seq:
        return State(), store.read(session_id)  # the store was brought back from a copy
    return kept.state, records


def digest_of(event: Event) -> str:
    """What tells an event from another."""
    return hashlib.sha256(encode(event)).hexdigest()


@functools.cache
def get_fold_version() -> str:
    """What the fold's code is: another version of it may make another state of the same events."""
    digest = hashlib.sha256(__version__.encode())
    for module in (code, shape, messages, specs):
        try:
            digest.update(Path(module.__file__ or "").read_bytes())
        except OSError:
            continue  # where there is no source the version has to do
    return digest.hexdigest()
