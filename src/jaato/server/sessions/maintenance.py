"""What a server does of itself: puts down what nobody needs, hears of what others write, and keeps within its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from jaato.errors import JaatoError, SessionNotFound
from jaato.log import logger
from jaato.server.sessions.hub import REMOVED, Hub

LOG = logger("server")
SWEEP_S = 5.0
FOLLOW_S = 0.2
"""How often the store is looked at for a session that works in another process."""


@asynccontextmanager
async def maintain_sessions(hub: Hub) -> AsyncIterator[None]:
    """Look after the sessions of a server that goes on, while the body runs."""
    async with anyio.create_task_group() as group:
        for work in (look, sweep, follow):
            group.start_soon(work, hub)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def look(hub: Hub) -> None:
    """Look which sessions the end of a server has cut off."""
    with surviving("the sessions that were cut off"):
        await hub.interrupted.look(hub.pool.loaded)


async def sweep(hub: Hub) -> None:
    """Put down what nobody needs, again and again."""
    while True:
        await anyio.sleep(min(SWEEP_S, hub.idle_after_s))
        for session_id, live in list(hub.pool.loaded.items()):
            with surviving(f"the session {session_id}"):
                live.session.questions.expire()
                if live.visit_over:
                    await hub.evict(session_id)
                elif hub.pool.is_idle(live):
                    await hub.evict(session_id, idle=True)
        await hub.renew()
        if hub.news:
            hub.news = False
            for room in hub.rooms.values():
                room.tell()
        for session_id, room in list(hub.rooms.items()):
            if not room.watched and session_id not in hub.pool.loaded:
                hub.close_room(session_id)
        with surviving("a workspace"):
            await hub.pool.sweep()


async def follow(hub: Hub) -> None:
    """Hear of what other processes write into sessions that are watched here."""
    troubled = ""
    while True:
        await anyio.sleep(FOLLOW_S)
        for session_id, room in list(hub.rooms.items()):
            if room.watched and session_id not in hub.pool.loaded:
                try:
                    room.catch_up()
                except SessionNotFound:
                    hub.close_room(session_id, REMOVED)
                except JaatoError as error:
                    if troubled != str(error):
                        troubled = str(error)
                        LOG.warning("The session %s cannot be followed: %s", session_id, error)


@contextmanager
def surviving(what: str) -> Iterator[None]:
    """Look after one thing, whose failure must not end the others: it is the log's."""
    try:
        yield
    except (JaatoError, OSError) as error:
        LOG.warning("Could not look after %s: %s", what, error)
