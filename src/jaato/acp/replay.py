"""The stored conversation of a session as updates, a page at a time."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

from acp.helpers import image_block, update_user_message

from jaato.acp.updates import Update, Updates, with_message
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.events import Event, MessageUser
from jaato.protocol.messages import Media

MAX_IMAGE_BYTES = 4_000_000


async def replay_history(session: RemoteSession, updates: Updates, last_seq: int) -> AsyncIterator[Update]:
    """The updates of a session's entries up to an event, oldest first. Memory does not grow with their number."""
    async for event in session.entries(0, last_seq):
        for update in updates.take(event):
            yield update
        async for update in replay_images(session, event):
            yield update
    for update in updates.close_calls():
        yield update


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
        image = update_user_message(image_block(base64.b64encode(data).decode(), part.mime_type))
        yield with_message(event.message.id, image)
