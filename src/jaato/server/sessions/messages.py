"""Sends a client's message to an agent: into the log, with attachments, and until its turn has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from jaato.abc.store import Store
from jaato.agent.inbox import Author
from jaato.errors import ConfigError, JaatoError, Overloaded
from jaato.log import logger
from jaato.protocol.commands import File, MessageSend
from jaato.protocol.frames import Done, Settled
from jaato.protocol.messages import Media
from jaato.server.sessions.idempotency import PendingMessage
from jaato.server.sessions.room import Room
from jaato.server.sessions.session_pool import Live

LOG = logger("server")
MOST_WAITING = 200
MOST_WAITING_CHARS = 4_000_000
"""The most messages, and characters, of users that may be queued for an agent."""


def check_attachments(store: Store, session_id: str, command: MessageSend) -> MessageSend:
    """A message whose attachments a provider takes, each image with the media type of its bytes. Reads and decodes, so not for
    the loop. Raises `ImageRefused`, and `StoreError` for one that the session does not have."""
    from jaato.tools.images import check_attachment  # most messages have none

    files = [
        replace(file, mime_type=check_attachment(file.name, file.mime_type, file.data))
        for file in command.files
    ]
    return replace(
        command,
        files=files,
        attachments=[check_stored(store, session_id, one) for one in command.attachments],
    )


def check_stored(store: Store, session_id: str, media: Media) -> Media:
    """An attachment that the session has already, as it is stored. Raises as `check_attachments` does."""
    from jaato.tools.images import MAX_IMAGE_BYTES, check_attachment, is_image

    size_bytes = store.blob_size(session_id, media.blob)
    if not is_image(media.mime_type):
        return replace(media, size_bytes=size_bytes)
    data = store.get_blob(session_id, media.blob, 0, MAX_IMAGE_BYTES + 1)
    return replace(
        media, mime_type=check_attachment(media.name, media.mime_type, data), size_bytes=size_bytes
    )


def store_attachments(live: Live, files: list[File]) -> list[Media]:
    """Store a client's attachments in the session's store. Raises `StoreError`."""
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


def check_queue_limit(live: Live, room: Room) -> None:
    """Raise `Overloaded` when the queue of an agent is full."""
    waiting = [message for message in live.session.inbox.messages if message.source == "user"]
    if live.session.is_busy and (
        len(waiting) + len(room.preparing) > MOST_WAITING
        or sum(len(message.words) for message in waiting) > MOST_WAITING_CHARS
    ):
        raise Overloaded(
            f"{len(waiting)} messages wait for the agent's next pause already. Send this one again after the pause, "
            "or stop the turn."
        )


def send_message(
    live: Live, room: Room, command: MessageSend, by: Author
) -> tuple[PendingMessage, Callable[[], Awaitable[None]]]:
    """A wait until a message is in the log, and the coroutine that records it and runs its turn; start it at once. Raises
    `StoreError` for attachments that cannot be stored, `Overloaded` when the queue is full."""
    check_queue_limit(live, room)
    media = store_attachments(live, command.files)
    taken = room.preparing[by.once] = PendingMessage(by.once)
    forget = live.session.journal.bus.listen(taken)

    async def turn() -> None:
        try:
            with live.in_use():
                await live.session.post(command.text, [*command.attachments, *media], author=by)
        except JaatoError as error:
            if not taken.fail(error):
                raise
            LOG.warning("%s", error)  # its sender gets the error
        finally:
            forget()
            room.preparing.pop(by.once, None)
            taken.fail(JaatoError("The message was not taken."))

    return taken, turn


async def stop_task(live: Live | None, task_id: str) -> Done:
    """Stop a background task. Raises `ConfigError` when there is none."""
    task = live.session.tasks.get(task_id) if live is not None else None
    if task is None:
        raise ConfigError("There is no such task (any more).")
    task.cancel()
    return Done()


async def stop_call(live: Live | None, agent_id: str, call_id: str) -> Done:
    """Stop what a running call of an agent waits for. Raises `ConfigError` when there is no such call."""
    if live is None or not live.session.supervisor.session_of(agent_id).tools.stop_call(call_id):
        raise ConfigError("No such call runs (any more).")
    return Done()


async def wait_for_subagents(live: Live | None) -> Done:
    """Wait for working subagents and deliver their results to the agent, until none works or the work is
    stopped."""
    if live is None:
        return Done()
    session, stops = live.session, live.stops
    while True:
        await session.supervisor.all_done()
        await session.turns.wait_idle()
        waiting = any(message.source == "child" for message in session.inbox.messages)
        if live.stops != stops or not waiting:
            return Done()
        turn = await session.run_queued()
        if turn is None and not session.is_busy:
            return Done()  # the session is closed
        if turn is not None and turn.reason != "stop":
            return Done()


def get_settled(room: Room, question_id: str) -> Settled:
    """Who answered a question; empty for an unknown one."""
    answer, by = room.recall.settled.get(question_id, ("", ""))
    return Settled(False, by, answer)
