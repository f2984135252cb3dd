"""Which sessions the end of a server has cut off in their work, and how many of their questions wait."""

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

TELLING = (
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
"""The events that say whether anything is unfinished."""


class Standing(NamedTuple):
    """Whether agents of a session have something to do, and how many questions wait for an answer."""

    unfinished: bool = False
    questions: int = 0

    @classmethod
    def of(cls, session_state: SessionState) -> Standing:
        """That of the agents of one log."""
        states = [session_state.root, *(record.state for record in session_state.subagents.values())]
        return cls(session_state.is_unfinished, sum(len(state.questions) for state in states))


class InterruptedSessions:
    """The sessions of a store that were left unfinished. Work grows with them alone, and each is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, Standing]] = {}
        self._alone = anyio.Lock()

    def known(self) -> Mapping[str, Standing]:
        """Those that were looked at, as they are."""
        if not self._known:
            return {}
        left = self._store.abandoned_sessions()
        self._known = {
            session_id: self._known[session_id] for session_id in left if session_id in self._known
        }
        return {session_id: standing for session_id, (_, standing) in self._known.items()}

    async def look(self, lives: Collection[str]) -> None:
        """Look at those that are new, and strike those that were at rest when their process died."""
        async with self._alone:
            for session_id in self._store.abandoned_sessions():
                with contextlib.suppress(StoreError):  # somebody else has it, or has removed it
                    last = self._store.last_seq(session_id)
                    if session_id in self._known and self._known[session_id][0] == last:
                        continue
                    standing = await anyio.to_thread.run_sync(read_standing, self._store, session_id)
                    if standing.unfinished or self._store.read_only:
                        self._known[session_id] = (last, standing)
                    elif session_id not in lives:
                        self._store.clear_abandoned(session_id)


def read_standing(store: Store, session_id: str) -> Standing:
    """How a stored session stands; reads all of it. Raises `StoreError`."""
    session_state = SessionState(State())
    for event in store.read(session_id):
        if isinstance(event, TELLING):
            session_state.apply(event)
    return Standing.of(session_state)
