"""Stored sessions that the server has open: how they stand there, and what only it can do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaato.abc.store import SessionRow, Store
from jaato.cli.connect import greeted, same_place
from jaato.client.address import Address, socket_path
from jaato.client.blocking import Client
from jaato.errors import JaatoError, SessionBusy
from jaato.protocol.commands import Command, SessionList
from jaato.protocol.frames import Sessions
from jaato.settings import environment

LISTED = 500


def beside() -> Client | None:
    """The user's own server, if it runs and keeps its sessions where this process does."""
    environ = environment()
    path = socket_path(environ)
    if not path.exists():
        return None
    try:
        client = greeted(Address(path=path))
    except JaatoError:
        return None
    if same_place(client.welcome.state_dir, environ):
        return client
    client.close()
    return None


def done_here_or_there(work: Callable[[], None], command: Command) -> None:
    """Do something with a session, or have the server do it, where that has the session open. Raises `SessionBusy` for one
    that is open elsewhere."""
    try:
        work()
    except SessionBusy:
        client = beside()
        if client is None:
            raise
        with client:
            client.ask(command)


def standing(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """What is to be said of sessions that somebody has open, or that were cut off."""
    words = {row.id: f"open in {holder.what}" for row in rows if (holder := store.holder(row.id))}
    client = beside()
    if client is None:
        return words | cut_off(store, rows)
    with client:
        found = client.ask(SessionList(limit=LISTED))
    assert isinstance(found, Sessions)
    for one in found.sessions:
        if one.busy:
            words[one.id] = "at work" + waiting(one.questions)
        elif one.interrupted:
            words[one.id] = "cut off" + waiting(one.questions)
        elif one.is_loaded:
            words.pop(one.id, None)
    return words


def cut_off(store: Store, rows: Sequence[SessionRow]) -> dict[str, str]:
    """The same of those whose process has died at work, where no server tells."""
    from jaato.server.left import standing_of

    left = set(store.abandoned_sessions()) & {row.id for row in rows}
    found = {session_id: standing_of(store, session_id) for session_id in left}
    return {key: "cut off" + waiting(one.questions) for key, one in found.items() if one.unfinished}


def waiting(questions: int) -> str:
    """How many questions wait for an answer, where any do."""
    return f", {questions} question{'s' * (questions > 1)} waiting" if questions else ""
