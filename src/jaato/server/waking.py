"""Sessions that the end of a server has cut off: had at hand again for who comes to see them, and gone on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.server.hub import Hub
    from jaato.server.room import Room


async def wake(hub: Hub, session_id: str) -> None:
    """Have a session at hand that was cut off, if nobody else works in it: what is to be asked is asked then. Raises
    `JaatoError`s."""
    if hub.store.holder(session_id) is None and not hub.store.read_only and not hub.closing:
        await hub.live(session_id)


def went_on(hub: Hub, room: Room, session: Session) -> None:
    """Somebody has answered a question of a turn that was cut off: it goes on."""
    if session.is_interrupted:
        hub.work(room, lambda: session.resume(ask_outcomes=True))
