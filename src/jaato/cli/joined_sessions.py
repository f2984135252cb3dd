"""The `/` commands that name, list, copy and change sessions of the server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from jaato.cli.confined import sandbox_lines
from jaato.cli.screen import one_line
from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.protocol.commands import SessionFork, SessionUpdate
from jaato.protocol.frames import Done, Opened

if TYPE_CHECKING:
    from jaato.cli.joined import Joined

NOT_SESSION = (
    "There is no /session {rest}: /session shows this one, /rename NAME names it, /fork [NAME] copies it."
)


async def session_command(joined: Joined, rest: str) -> None:
    """/session"""
    verb, _, name = rest.partition(" ")
    if verb == "name" and name.strip():
        await rename_command(joined, name.strip())
        return
    if rest:
        raise ConfigError(NOT_SESSION.format(rest=one_line(rest, 60)))
    state = joined.session.state
    joined.screen.note(f"{state.session_id} {state.name or '(no name)'}")
    joined.screen.note(f"workspace {state.workspace}, {state.provider} {state.model}, {state.turns} turns")
    view = joined.session.info.sandbox if joined.session.info is not None else None
    for line in sandbox_lines(view) if view is not None else ():
        joined.screen.note(line)


async def rename_command(joined: Joined, rest: str) -> None:
    """/rename"""
    if not rest:
        raise ConfigError("Say which name: /rename NAME")
    done = await joined.client.ask(SessionUpdate(session_id=joined.session.id, name=rest))
    joined.screen.note(f"{joined.session.id} is called {rest}.")
    if isinstance(done, Done) and done.notice:
        joined.screen.note(done.notice, "yellow")


async def fork_command(joined: Joined, rest: str) -> None:
    """/fork"""
    before = joined.session.id
    made = await joined.client.ask(SessionFork(session_id=before, name=rest or None))
    assert isinstance(made, Opened)
    await go_on(joined, made.session_id)
    if made.notice:
        joined.screen.note(made.notice, "yellow")
    joined.screen.note(f"This is the fork; /resume {before} goes back.")


async def sessions_command(joined: Joined, _rest: str) -> None:
    """/sessions"""
    found = await joined.client.list(joined.session.state.workspace, 20)
    for row in found.sessions:
        sign = "*" if row.id == joined.session.id else " "
        joined.screen.note(f"{sign} {row.id}  {row.updated_at[:16]}  {row.model}  {row.name or ''}")


async def new_command(joined: Joined, rest: str) -> None:
    """/new"""
    if joined.creation is None:
        raise JaatoError("This terminal has joined a session; `jaato chat` begins one.")
    said = joined.creation if joined.creation.provider or joined.begun is None else joined.begun
    begun = msgspec.structs.replace(
        said, session_id="", resume=False, name=rest or None, once=os.urandom(12).hex()
    )
    await joined.change(begun, None)


async def resume_command(joined: Joined, rest: str) -> None:
    """/resume"""
    if not rest:
        await sessions_command(joined, "")
        joined.screen.note("Say which: /resume ID")
        return
    try:
        await go_on(joined, rest)
    except SessionNotFound:
        joined.screen.note(await joined.session.execute("resume", rest), "dim")  # a saved one is stored again
        await go_on(joined, rest)


async def go_on(joined: Joined, named: str) -> None:
    """Leave for another session. Raises `JaatoError`, and stays."""
    if joined.creation is None:
        await joined.change(None, named)
        return
    fresh = {"name": None, "provider": None, "model": None, "once": os.urandom(12).hex()}
    begun = msgspec.structs.replace(joined.creation, session_id=named, resume=False, **fresh)
    await joined.change(begun, None)
