"""What a client says to an agent: on its way into the log, with the files it brings, and until all is done."""

from __future__ import annotations

import asyncio

from jaato.agent.suspension import go_on
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.commands import File
from jaato.protocol.events import ErrorRaised
from jaato.protocol.frames import Done, Settled
from jaato.protocol.messages import Media
from jaato.server.live import Live
from jaato.server.room import Room
from jaato.tools.call import problem_of

SETTLED_S = 2.0


def kept(live: Live, files: list[File]) -> list[Media]:
    """Files a client sent along, in the session's store. Raises `StoreError`."""
    journal = live.session.journal
    return [
        Media(
            file.mime_type,
            journal.store.put_blob(journal.state.session_id, file.data),
            len(file.data),
            file.name,
        )
        for file in files
    ]


def broken_off(live: Live, room: Room, error: JaatoError) -> None:
    """Tell everybody that a turn could not go on; where not even that can be stored, as a notice."""
    journal = live.session.journal
    try:
        journal.record(ErrorRaised(**journal.head(), error=problem_of(error)))
    except JaatoError:
        room.say(f"The turn could not go on: {error}", "error")


async def continued(live: Live, room: Room) -> None:
    """Go on with a turn that was cut off. Raises what ends it before its end."""
    try:
        await go_on(live.session)
    except JaatoError as error:
        broken_off(live, room, error)
        raise


async def stop_task(live: Live | None, task_id: str) -> Done:
    """Stop a background task. Raises `ConfigError` when there is none."""
    task = live.session.tasks.get(task_id) if live is not None else None
    if task is None:
        raise ConfigError("There is no such task (any more).")
    task.cancel()
    return Done()


async def settled_down(live: Live | None) -> Done:
    """Wait for subagents that still work, and let the agent hear of them, until there is nothing more to hear."""
    if live is None:
        return Done()
    session = live.session
    while True:
        await session.crew.all_done()
        if session.busy or not any(message.source == "child" for message in session.inbox):
            return Done()
        turn = await session.heed()
        if turn is None or turn.reason != "stop":
            return Done()


async def settled(room: Room, question_id: str) -> Settled:
    """Whose answer counted, as soon as the log says so; nobody's for a question that is not known."""
    until = asyncio.get_running_loop().time() + SETTLED_S
    while question_id in room.state.questions and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    answer, by = room.settled.get(question_id, ("", ""))
    return Settled(False, by, answer)
