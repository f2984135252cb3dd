"""Searching and forking of stored sessions, in threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import anyio
from msgspec.structs import replace

from jaato.protocol.commands import SessionFork, SessionList
from jaato.protocol.frames import Opened, Sessions
from jaato.protocol.ids import id_of, new_id, session_name
from jaato.protocol.specs import SessionEntry
from jaato.runtime.session_store import namesakes, read_first_message
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.listing import entries, is_stored, page_entries

SEARCHING = anyio.CapacityLimiter(2)
"""The threads for searches; a cancelled search still occupies one, so they have a limit of their own."""
MOST_LISTED = 500
MOST_TITLES = 10_000
"""First messages that are kept in memory."""


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


async def add_titles(hub: Hub, rows: Sequence[SessionEntry]) -> list[SessionEntry]:
    """The rows, with the first message of those that have neither a name nor a description."""
    untitled = {row.id for row in rows if not (row.name or row.description)}
    titles = {session_id: hub.titles[session_id] for session_id in untitled if session_id in hub.titles}
    if unread := untitled - titles.keys():
        titles |= await anyio.to_thread.run_sync(read_titles, hub, unread)
        if len(hub.titles) > MOST_TITLES:
            hub.titles.clear()
        hub.titles |= titles
    return [replace(row, description=titles.get(row.id)) if row.id in untitled else row for row in rows]


def read_titles(hub: Hub, session_ids: Iterable[str]) -> dict[str, str]:
    """The beginnings of the first messages by session, as far as there are any."""
    texts = ((one, read_first_message(hub.store, one, hub.secrets)) for one in session_ids)
    return {session_id: text for session_id, text in texts if text}


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
