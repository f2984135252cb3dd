"""The table of sessions: lists pages newest first, and finds a session by id, prefix or name.

A session's row is not written at every append: `touched_at` is right to a tenth of a second, and the exact
time is that of its last event. Sessions of one tenth are therefore ordered among themselves when listed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from itertools import groupby
from operator import attrgetter
from typing import Any

from jaato.abc.store import SessionRow
from jaato.errors import SessionNotFound
from jaato.protocol.codec import is_unicode
from jaato.storage.schema import SEQ_BITS

TENTH = len("2026-01-31T10:11:12.1")
"""The characters of a timestamp up to its tenths of a second."""

SHOWN_CANDIDATES = 5
ROW = "SELECT number, id, workspace, name, description, provider, model, created_at, touched_at FROM session"
LAST = (
    "SELECT position, timestamp FROM event WHERE position > ? AND position < ? ORDER BY position DESC LIMIT 1"
)


def tenth_of_second(timestamp: str) -> str:
    """A timestamp cut to what a session's row is kept right to."""
    return timestamp[:TENTH]


def list_sessions(
    connection: sqlite3.Connection,
    workspace: str | None,
    limit: int,
    before: str | None,
    only: Collection[int] | None = None,
) -> list[SessionRow]:
    """One page, newest first; `before` is the `cursor` of the last row of the page before.

    With `only`, the sessions with these numbers.
    """
    if not is_unicode(workspace or "") or not is_unicode(before or ""):
        return []
    conditions, values = [], []
    if workspace is not None:
        conditions.append("workspace = ?")
        values.append(workspace)
    if before is not None:
        conditions.append("touched_at <= ?")
        values.append(before.partition(" ")[0])
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    found: list[SessionRow] = []
    rows = connection.execute(f"{ROW}{where} ORDER BY touched_at DESC", values)
    wanted = rows if only is None else (row for row in rows if row[0] in only)
    try:
        for _, group in groupby(wanted, key=lambda row: tenth_of_second(row[8])):
            page = sorted(
                [session_row(connection, row) for row in group], key=attrgetter("cursor"), reverse=True
            )
            found += [row for row in page if before is None or row.cursor < before]
            if len(found) >= limit:
                break
    finally:
        rows.close()
    return found[: max(0, limit)]


def session_row(connection: sqlite3.Connection, row: tuple[Any, ...]) -> SessionRow:
    """The row of a list, with what only the last event knows."""
    number, session_id, workspace, name, description, provider, model, created_at, touched_at = row
    last = connection.execute(LAST, (number << SEQ_BITS, (number + 1) << SEQ_BITS)).fetchone()
    return SessionRow(
        id=session_id,
        workspace=workspace,
        name=name,
        description=description,
        provider=provider,
        model=model,
        created_at=created_at,
        updated_at=max(touched_at, last[1]) if last else touched_at,
        last_seq=last[0] - (number << SEQ_BITS) if last else 0,
    )


def find_session(connection: sqlite3.Connection, text: str, workspace: str | None) -> str:
    """The id meant by an id, a name or the beginning of an id; the last two within `workspace`, if given.

    Raises `SessionNotFound`, with the candidates when there are several.
    """
    if not text or not is_unicode(text) or not is_unicode(workspace or ""):
        raise SessionNotFound(f"No session is called {text!r}. `jaato sessions list --all` shows them.")
    exact = connection.execute("SELECT id FROM session WHERE id = ?", (text,)).fetchone()
    if exact:
        return str(exact[0])
    here, inside = ("", ()) if workspace is None else (" AND workspace = ?", (workspace,))
    named = connection.execute(
        f"{ROW} WHERE name = ?{here} ORDER BY touched_at DESC", (text, *inside)
    ).fetchall()
    if not named:
        spelled = text[:1].lower() + text[1:].upper()
        named = connection.execute(
            f"{ROW} WHERE (id >= ? AND id < ? OR id >= ? AND id < ?){here} ORDER BY touched_at DESC",
            (text, text + "\U0010ffff", spelled, spelled + "\U0010ffff", *inside),
        ).fetchall()
    match named:
        case []:
            place = f" in {workspace}" if workspace is not None else ""
            raise SessionNotFound(
                f"No session has the id or name {text!r}, or an id that begins so{place}. "
                "`jaato sessions list --all` shows them."
            )
        case [row]:
            return str(row[1])
    shown = "\n".join(
        [
            f"  {row[1]}  {row[8][:16].replace('T', ' ')}  {row[3] or '(no name)'}  {row[2]}"
            for row in named[:SHOWN_CANDIDATES]
        ]
    )
    more = f"\n  and {len(named) - SHOWN_CANDIDATES} more" if len(named) > SHOWN_CANDIDATES else ""
    error = SessionNotFound(
        f"{text!r} fits {len(named)} sessions, the newest first; name one by its id:\n{shown}{more}"
    )
    error.several = True
    raise error


def find_named_sessions(connection: sqlite3.Connection, name: str) -> list[SessionRow]:
    """The newest sessions of this very name, in every workspace."""
    if not is_unicode(name):
        return []
    rows = connection.execute(
        f"{ROW} WHERE name = ? ORDER BY touched_at DESC LIMIT ?", (name, SHOWN_CANDIDATES + 1)
    )
    return [session_row(connection, row) for row in rows.fetchall()]
