"""Housekeeping of a server: evicts idle sessions, follows other processes' sessions, and keeps within its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from jaato.errors import JaatoError, SessionNotFound
from jaato.log import logger
from jaato.server.sessions.hub import Hub

LOG = logger("server")
SWEEP_S = 5.0
FOLLOW_S = 0.2
"""The interval of reading the store for a session that runs in another process."""


@asynccontextmanager
async def maintain_sessions(hub: Hub) -> AsyncIterator[None]:
    """Run the housekeeping tasks while the body runs."""
    async with anyio.create_task_group() as group:
        for work in (look, sweep, follow):
            group.start_soon(work, hub)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def look(hub: Hub) -> None:
    """Find the sessions that a server shutdown interrupted."""
    with log_failures("the sessions that were cut off"):
        await hub.interrupted.refresh(hub.pool.loaded)


async def sweep(hub: Hub) -> None:
    """Periodically evict idle sessions."""
    while True:
        await anyio.sleep(min(SWEEP_S, hub.idle_after_s))
        for session_id, live in list(hub.pool.loaded.items()):
            with log_failures(f"the session {session_id}"):
                live.session.questions.expire()
                if live.is_visit_over or hub.pool.is_idle(live):
                    await hub.evict(
                        session_id, when=lambda live: live.is_visit_over or hub.pool.is_idle(live)
                    )
        await hub.reload_stale()
        if hub.list_changed:
            hub.list_changed = False
            for session_id, room in list(hub.rooms.items()):
                with log_failures(f"the session {session_id}"):
                    room.publish_info()
        for session_id, room in list(hub.rooms.items()):
            if not room.is_watched and session_id not in hub.pool.loaded:
                hub.close_room(session_id)
        with log_failures("a workspace"):
            await hub.pool.close_idle_factories()


async def follow(hub: Hub) -> None:
    """Publish what other processes write into sessions with subscribers here."""
    troubled = ""
    while True:
        await anyio.sleep(FOLLOW_S)
        for session_id, room in list(hub.rooms.items()):
            if room.is_watched and session_id not in hub.pool.loaded:
                try:
                    room.catch_up()
                except SessionNotFound:
                    hub.close_room(session_id, is_deleted=True)
                except JaatoError as error:
                    if troubled != str(error):
                        troubled = str(error)
                        LOG.warning("The session %s cannot be followed: %s", session_id, error)


@contextmanager
def log_failures(what: str) -> Iterator[None]:
    """Run one task and log its failure, which must not end the others."""
    try:
        yield
    except (JaatoError, OSError) as error:
        LOG.warning("Could not look after %s: %s", what, error)
