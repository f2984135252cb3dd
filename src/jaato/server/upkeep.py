"""What a server does of itself: puts down what nobody needs, hears of what others write, and keeps within its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio

from jaato.errors import JaatoError, Overloaded, SessionNotFound
from jaato.log import logger
from jaato.server.share import share_of_files

if TYPE_CHECKING:
    from jaato.server.hub import Hub
    from jaato.server.live import Live
    from jaato.server.room import Room

LOG = logger("server")
SWEEP_S = 5.0
FOLLOW_S = 0.2
"""How often the store is looked at for a session that works in another process."""
REMOVED = "This session was removed; there is nothing more to come."
MOST_LIVE = 1_000
"""Sessions at hand; where files are few, fewer."""


@asynccontextmanager
async def maintained(hub: Hub) -> AsyncIterator[None]:
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
        await hub.left.look(hub.lives.by_id)


async def sweep(hub: Hub) -> None:
    """Put down what nobody needs, again and again."""
    while True:
        await anyio.sleep(min(SWEEP_S, hub.idle_after_s))
        for session_id, live in list(hub.lives.by_id.items()):
            with surviving(f"the session {session_id}"):
                live.session.desk.expire()
                if live.passed:
                    await hub.put_down(session_id)
                elif is_idle(hub, live):
                    await hub.put_down(session_id, idle=True)
        await renew(hub)
        if hub.news:
            hub.news = False
            for room in hub.rooms.values():
                room.tell()
        for session_id, room in list(hub.rooms.items()):
            if not room.watched and session_id not in hub.lives.by_id:
                hub.forget(session_id)
        with surviving("a workspace"):
            await hub.lives.sweep(hub.idle_after_s)


async def renew(hub: Hub) -> None:
    """Take up the sessions that rest again if the configuration is another one; one that cannot be used changes nothing."""
    for session_id, live in list(hub.lives.by_id.items()):
        if live.stale and live.resting:
            live.stale = False
            try:
                hub.lives.fresh(live)
                await hub.anew(session_id)
            except JaatoError as error:
                if (room := hub.rooms.get(session_id)) is not None:
                    refuse(room, error)


def refuse(room: Room, error: JaatoError) -> None:
    """Tell who watches that a new configuration cannot be used."""
    room.say(f"The configuration cannot be read anew here: {error}", "warning")


async def follow(hub: Hub) -> None:
    """Hear of what other processes write into sessions that are watched here."""
    troubled = ""
    while True:
        await anyio.sleep(FOLLOW_S)
        for session_id, room in list(hub.rooms.items()):
            if room.watched and session_id not in hub.lives.by_id:
                try:
                    room.catch_up()
                except SessionNotFound:
                    hub.forget(session_id, REMOVED)
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


def is_idle(hub: Hub, live: Live) -> bool:
    """Whether nobody watches a session and it has done nothing for long enough."""
    return live.rests(hub.idle_after_s, watched=watched(hub, live.session.state.session_id))


def watched(hub: Hub, session_id: str) -> bool:
    """Whether anybody watches a session."""
    room = hub.rooms.get(session_id)
    return room is not None and room.watched


async def make_room(hub: Hub) -> None:
    """Put down what has rested longest, when there are as many sessions at hand as may be: each has files open.
    Raises `Overloaded` when all of them are watched or at work."""
    most = most_live()
    while len(hub.lives.by_id) >= most:
        resting = [
            (live.idle_since, session_id)
            for session_id, live in hub.lives.by_id.items()
            if live.resting and not live.visit and not watched(hub, session_id)
        ]
        if not resting:
            raise Overloaded(f"{most} sessions are at work or watched; end one, or try again later.")
        await hub.put_down(min(resting)[1])


def most_live() -> int:
    """As many sessions as leave files enough for connections and for the work."""
    return share_of_files(MOST_LIVE)
