"""Listing, searching and forking of stored sessions, in threads."""

from __future__ import annotations

from functools import partial

import anyio

from jaato.protocol.commands import SessionFork, SessionList
from jaato.protocol.frames import Opened, Sessions
from jaato.protocol.ids import id_of, new_id, session_name
from jaato.runtime.session_store import namesakes
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.listing import entries, is_stored, page_entries
from jaato.server.sessions.titles import add_titles

SEARCHING = anyio.CapacityLimiter(2)
"""The threads for searches; a cancelled search still occupies one, so they have a limit of their own."""
MOST_LISTED = 500


async def list_sessions(hub: Hub, command: SessionList) -> Sessions:
    """One page of the stored sessions, or of those that have all words of a query. Raises `StoreError`."""
    limit = min(max(command.limit, 1), MOST_LISTED)
    if command.query:
        return await search_sessions(hub, command, limit)
    await hub.interrupted.refresh(hub.pool.loaded)
    rows, cursor = entries(
        hub.store, hub.pool.loaded, hub.interrupted, command.workspace, limit, command.cursor
    )
    return Sessions(await add_titles(hub, rows), cursor)


async def search_sessions(hub: Hub, command: SessionList, limit: int) -> Sessions:
    """One page of the sessions that have all words of a query. Raises `StoreError`."""
    query, store = command.query or "", hub.store
    while True:
        hits = await anyio.to_thread.run_sync(
            partial(store.search, query, command.workspace, limit + 1, command.cursor),
            abandon_on_cancel=True,
            limiter=SEARCHING,
        )
        if hits.complete:
            break
    rows = [hit.row for hit in hits.found]
    found = {hit.row.id: hit.snippet for hit in hits.found}
    await hub.interrupted.refresh(hub.pool.loaded)
    rows, cursor = page_entries(hub.pool.loaded, hub.interrupted, rows, limit, found)
    return Sessions(await add_titles(hub, rows), cursor)


async def fork_session(hub: Hub, command: SessionFork, session_id: str) -> Opened:
    """A new session with what this one has. Raises `StoreError`."""
    made = id_of("s", command.once) if command.once else new_id("s")
    async with hub.lock(made):
        again = is_stored(hub.store, made)
        if not again:
            name = session_name(command.name)
            await anyio.to_thread.run_sync(hub.store.fork, session_id, command.seq, name, made)
    room, hub.list_changed = await hub.room(made), True
    notice = namesakes(hub.store, made, room.state.name)
    return Opened(made, room.state.seq, room.state.name, again=again, notice=notice)
