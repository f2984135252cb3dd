"""A reader that is too far behind is told the state instead of what has happened."""

from __future__ import annotations

import msgspec

from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State

BACKLOG = 10_000
"""Events a reader may be behind before it is told the state instead."""


def snapshot(info: SessionInfo, state: State) -> SessionInfo:
    """A session as it is now, for a reader whose events were dropped."""
    return msgspec.structs.replace(info, seq=state.seq, state=state, live=None)
