"""What takes its time in the store, off the loop: searching and forking."""

from __future__ import annotations

import anyio

from jaato.protocol.commands import SessionFork, SessionList
from jaato.protocol.frames import Opened, Sessions
from jaato.server.hub import Hub
from jaato.server.listing import page_entries


async def searched(hub: Hub, command: SessionList, limit: int) -> Sessions:
    """One page of the sessions that have all words of a query. Raises `StoreError`."""
    query, store = command.query or "", hub.store
    while True:
        hits = await anyio.to_thread.run_sync(
            store.search, query, command.workspace, limit + 1, command.cursor, abandon_on_cancel=True
        )
        if hits.complete:
            break
    rows = [hit.row for hit in hits.found]
    found = {hit.row.id: hit.snippet for hit in hits.found}
    await hub.look()
    return Sessions(*page_entries(hub.lives.by_id, hub.left, rows, limit, found))


async def listed(hub: Hub, command: SessionList, limit: int) -> Sessions:
    """One page of the sessions, newest first. Raises `StoreError`."""
    await hub.look()
    return Sessions(*hub.listed(command.workspace, limit, command.cursor))


async def forked(hub: Hub, command: SessionFork, session_id: str) -> Opened:
    """A new session with what this one has. Raises `StoreError`."""
    made = await anyio.to_thread.run_sync(hub.store.fork, session_id, command.seq, command.name)
    room = hub.room(made)
    return Opened(made, room.state.seq, room.state.name)
