"""Titles of sessions without a name: the beginnings of their first messages, read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
from msgspec.structs import replace

from jaato.protocol.specs import SessionEntry
from jaato.runtime.session_store import read_first_message
from jaato.server.sessions.hub import Hub

MOST_TITLES = 10_000
"""First messages that are kept in memory."""


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
