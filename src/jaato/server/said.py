"""What a client says to an agent: on its way into the log, with the files it brings, and until all is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from jaato.errors import ConfigError, JaatoError
from jaato.protocol.commands import File, MessageSend
from jaato.protocol.frames import Done, Settled, Taken
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media
from jaato.server.accepted import Accepted
from jaato.server.live import Live
from jaato.server.room import Room

if TYPE_CHECKING:
    from jaato.server.hub import Hub

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


async def taken_once(hub: Hub, room: Room, live: Live, command: MessageSend) -> Taken:
    """Give an agent a message, unless one with the same `once` is in the log or on its way there. Raises `JaatoError`s."""
    once = command.once
    if once and (seq := room.taken.get(once)):
        return Taken(seq, again=True)
    if once and (coming := room.coming.get(once)):
        return msgspec.structs.replace(await coming, again=True)
    media = kept(live, command.files)
    mark = once or new_id("k")
    taken = Accepted(mark)
    forget = live.session.journal.bus.listen(taken)

    async def turn() -> None:
        try:
            with live.in_use():
                await live.session.post(command.text, [*command.attachments, *media], once=mark)
        except JaatoError as error:
            taken.failed(error)
            raise
        finally:
            taken.failed(JaatoError("The message was not taken."))

    room.coming[mark] = taken
    hub.begin(turn)
    try:
        return await taken
    finally:
        forget()
        room.coming.pop(mark, None)


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
