"""Sessions that a server shutdown interrupted, and the number of their pending questions."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

import anyio

from jaato.abc.store import Store
from jaato.agent.state import SessionState, State
from jaato.errors import StoreError
from jaato.protocol.events import (
    AgentCompleted,
    AgentCreated,
    ClarificationQuestion,
    ClarificationResolved,
    MessageUser,
    MidTurnQueued,
    PermissionRequested,
    PermissionResolved,
    SessionCreated,
    TurnCompleted,
)

STATUS_EVENTS = (
    SessionCreated,
    AgentCreated,
    AgentCompleted,
    MessageUser,
    MidTurnQueued,
    TurnCompleted,
    PermissionRequested,
    PermissionResolved,
    ClarificationQuestion,
    ClarificationResolved,
)
"""Events that change whether a session is unfinished."""


class InterruptedStatus(NamedTuple):
    """Whether a session is unfinished, and the number of its pending questions."""

    unfinished: bool = False
    questions: int = 0

    @classmethod
    def of(cls, session_state: SessionState) -> InterruptedStatus:
        """The status from the folded state of a session."""
        states = [session_state.root, *(record.state for record in session_state.subagents.values())]
        return cls(session_state.is_unfinished, sum(len(state.questions) for state in states))


class InterruptedSessions:
    """The interrupted sessions of a store. Each is read once, and no other session is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, InterruptedStatus]] = {}
        self._alone = anyio.Lock()

    def known(self) -> Mapping[str, InterruptedStatus]:
        """The sessions read so far, with their status."""
        if not self._known:
            return {}
        left = self._store.abandoned_sessions()
        self._known = {
            session_id: self._known[session_id] for session_id in left if session_id in self._known
        }
        return {session_id: standing for session_id, (_, standing) in self._known.items()}

    async def refresh(self, lives: Collection[str]) -> None:
        """Read new interrupted sessions, and clear those that were idle when their process died."""
        async with self._alone:
            for session_id in self._store.abandoned_sessions():
                with contextlib.suppress(StoreError):  # another process has it, or has removed it
                    last = self._store.last_seq(session_id)
                    if session_id in self._known and self._known[session_id][0] == last:
                        continue
                    standing = await anyio.to_thread.run_sync(read_status, self._store, session_id)
                    if standing.unfinished or self._store.read_only:
                        self._known[session_id] = (last, standing)
                    elif session_id not in lives:
                        self._store.clear_abandoned(session_id)


def read_status(store: Store, session_id: str) -> InterruptedStatus:
    """The status of a stored session; reads its whole log. Raises `StoreError`."""
    session_state = SessionState(State())
    for event in store.read(session_id):
        if isinstance(event, STATUS_EVENTS):
            session_state.apply(event)
    return InterruptedStatus.of(session_state)
