"""Rows of sessions and tools for clients."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import msgspec

from jaato.abc.store import Store
from jaato.agent.compaction.account import spec_chars
from jaato.agent.compaction.window import CHARS_PER_TOKEN
from jaato.errors import SessionNotFound
from jaato.protocol.specs import SessionEntry
from jaato.server.sessions.interrupted import InterruptedSessions, InterruptedStatus
from jaato.server.sessions.session_pool import Live, works

MAX_SUMMARY_CHARS = 400


def entries(
    store: Store,
    lives: Mapping[str, Live],
    left: InterruptedSessions,
    workspace: str | None = None,
    limit: int = 50,
    before: str | None = None,
) -> tuple[list[SessionEntry], str | None]:
    """One page of stored sessions, newest first, and the cursor of the next one."""
    return page_entries(lives, left, store.sessions(workspace, limit=limit + 1, before=before), limit)


def page_entries(
    lives: Mapping[str, Live],
    left: InterruptedSessions,
    rows: list[SessionEntry],
    limit: int,
    found: Mapping[str, str] | None = None,
) -> tuple[list[SessionEntry], str | None]:
    """At most `limit` rows as a client is shown them, and the cursor of the next page if there are more.

    `found` has what a search has found in each.
    """
    cut_off = left.known() if rows else {}
    shown = []
    for row in rows[:limit]:
        session = lives[row.id].session if row.id in lives else None
        session_state = session.journal.session_state if session is not None else None
        standing = (
            InterruptedStatus.of(session_state)
            if session_state is not None
            else cut_off.get(row.id, InterruptedStatus())
        )
        shown.append(
            msgspec.structs.replace(
                row,
                is_loaded=session is not None,
                busy=session is not None and works(session),
                interrupted=standing.unfinished if session is None else session.is_interrupted,
                questions=standing.questions,
                found=(found or {}).get(row.id),
            )
        )
    return shown, rows[limit - 1].cursor if len(rows) > limit else None


def tools_of(live: Live) -> list[dict[str, object]]:
    """The tools of a session, as `session.info` has them."""
    session = live.session
    return [
        {
            "name": tool.name,
            "description": summarize_description(tool.spec.description),
            "enabled": tool.name not in session.state.disabled,
            "plugin": tool.plugin,
            "category": tool.spec.category,
            "declared": tool.name in session.active_tools,
            "tokens": spec_chars(tool.spec) // CHARS_PER_TOKEN,
        }
        for tool in session.catalog
    ]


def summarize_description(text: str) -> str:
    """The first paragraph of a tool's description on one line, bounded, as every client of every session gets those of all
    tools."""
    return textwrap.shorten(text.strip().partition("\n\n")[0], MAX_SUMMARY_CHARS, placeholder=" …")


def is_stored(store: Store, session_id: str) -> bool:
    """Whether there is a session with this id."""
    try:
        return store.last_seq(session_id) > 0
    except SessionNotFound:
        return False
