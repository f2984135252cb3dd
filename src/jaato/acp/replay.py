"""The stored conversation of a session as updates, a page at a time."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import suppress

from acp.helpers import image_block, update_user_message

from jaato.acp.updates import Update, Updates
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError, SessionNotFound
from jaato.protocol.events import Event, MessageUser
from jaato.protocol.messages import Media

PAGE = 400
"""Events of a page: it has at most as many entries, which is fewer than a server sends at once."""
MAX_IMAGE_BYTES = 4_000_000


async def replay_history(session: RemoteSession, updates: Updates, last_seq: int) -> AsyncIterator[Update]:
    """The updates of a session's entries up to an event, oldest first. Memory does not grow with their number."""
    async for event in stored_entries(session, 0, last_seq):
        for update in updates.take(event):
            yield update
        async for update in replay_images(session, event):
            yield update
    for update in updates.close_calls():
        yield update


async def stored_entries(session: RemoteSession, after_seq: int, last_seq: int) -> AsyncIterator[Event]:
    """The entries after an event up to another, oldest first."""
    for end in range(after_seq + PAGE, last_seq + PAGE, PAGE):
        page = await session.history(before_seq=min(end, last_seq) + 1, limit=PAGE)
        for event in page.events:
            if after_seq < event.seq <= last_seq:
                after_seq = event.seq
                yield event


async def missed_entries(session: RemoteSession, after_seq: int) -> AsyncIterator[Event]:
    """The entries after an event, oldest first: those that the state does not hold any more from the store."""
    held: list[Event] = [*session.state.entries]
    first = held[0].seq if held else session.state.seq + 1
    if session.state.earlier:
        with suppress(SessionNotFound):  # another client has deleted it
            async for entry in stored_entries(session, after_seq, first - 1):
                yield entry
    for entry in held:
        if entry.seq > after_seq:
            yield entry


async def replay_images(session: RemoteSession, event: Event) -> AsyncIterator[Update]:
    """The images of a user's message; those that are large or gone are only named."""
    if not isinstance(event, MessageUser) or event.message.source != "user":
        return
    for part in event.message.parts:
        if not isinstance(part, Media) or not part.mime_type.startswith("image/"):
            continue
        if part.size_bytes > MAX_IMAGE_BYTES:
            continue
        try:
            data = await session.blob(part.blob)
        except JaatoError:
            continue
        yield update_user_message(image_block(base64.b64encode(data).decode(), part.mime_type))
