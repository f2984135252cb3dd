"""What a client is shown of sessions and tools."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import takewhile

from jaato.abc.store import SessionRow, Store
from jaato.errors import SessionNotFound, StoreError
from jaato.protocol.events import Event, MessageModel, MessageUser, ToolCallStart, TurnCompleted
from jaato.protocol.specs import SessionEntry
from jaato.server.live import Live

LOOKED_AT = 64
"""Events read at once, from the end, to see whether a turn is open."""
MOST_LOOKED_AT = 4096


def entries(
    store: Store,
    lives: Mapping[str, Live],
    workspace: str | None = None,
    limit: int = 50,
    before: str | None = None,
) -> tuple[list[SessionEntry], str | None]:
    """One page of stored sessions, newest first, and the cursor of the next one."""
    return page_entries(store, lives, store.sessions(workspace, limit=limit + 1, before=before), limit)


def page_entries(
    store: Store,
    lives: Mapping[str, Live],
    rows: list[SessionRow],
    limit: int,
    found: Mapping[str, str] | None = None,
) -> tuple[list[SessionEntry], str | None]:
    """At most `limit` rows as a client is shown them, and the cursor of the next page if there are more.

    `found` has what a search has found in each.
    """
    left = set(store.abandoned()) if rows else set()
    shown = []
    for row in rows[:limit]:
        session = lives[row.id].session if row.id in lives else None
        shown.append(
            SessionEntry(
                id=row.id,
                workspace=row.workspace,
                name=row.name,
                description=row.description,
                provider=row.provider,
                model=row.model,
                created_at=row.created_at,
                updated_at=row.updated_at,
                last_seq=row.last_seq,
                is_loaded=session is not None,
                busy=session is not None and session.busy,
                interrupted=row.id in left and cut_off(store, row.id, row.last_seq)
                if session is None
                else session.state.open_turn is not None and not session.busy,
                found=(found or {}).get(row.id),
            )
        )
    return shown, rows[limit - 1].cursor if len(rows) > limit else None


def settle_rest(store: Store) -> None:
    """Strike the sessions that were open in a process when it died, and at rest: nothing was cut off there."""
    if store.read_only:
        return
    for session_id in store.abandoned():
        with contextlib.suppress(StoreError):  # somebody else has it, or has removed it
            if not cut_off(store, session_id, store.last_seq(session_id)):
                store.settle(session_id)


def cut_off(store: Store, session_id: str, last_seq: int) -> bool:
    """Whether the last turn of a stored session has no end. Reads from the end no more than tells."""
    root, after = "", last_seq
    for event in store.read(session_id):
        root = event.agent_id if isinstance(event, Event) else ""
        break
    while after > 0 and last_seq - after < MOST_LOOKED_AT:
        end, after = after, max(0, after - LOOKED_AT)
        recent = takewhile(lambda event: event.seq <= end, store.read(session_id, after))  # noqa: B023 read at once
        for event in reversed(list(recent)):
            match event:
                case TurnCompleted() if event.agent_id == root:
                    return False
                case MessageUser() | MessageModel() | ToolCallStart() if event.agent_id == root:
                    return True
    return False


def tools_of(live: Live) -> list[dict[str, object]]:
    """The tools of a session, as `session.info` has them."""
    session = live.session
    return [
        {
            "name": tool.name,
            "description": tool.spec.description.partition("\n")[0][:200],
            "enabled": tool.name not in session.state.disabled,
            "plugin": tool.plugin,
            "category": tool.spec.category,
            "declared": session.is_active(tool),
        }
        for tool in session.catalog
    ]


def is_stored(store: Store, session_id: str) -> bool:
    """Whether there is a session with this id."""
    try:
        return store.last_seq(session_id) > 0
    except SessionNotFound:
        return False
