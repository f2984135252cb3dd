"""A message as the model will read it: what was said, who said it, what plugins add."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio

from jaato.errors import ConfigError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, Message, Part, Source, Text
from jaato.tools.call import SERVICES, clean

Enrich = Callable[[str], Awaitable[str]]
URGENCY: dict[Source, int] = {"parent": 0, "user": 1, "system": 2, "child": 3}


class Author(NamedTuple):
    """Whose message it is, where several may speak, and the sender's own word for it."""

    name: str = ""
    once: str = ""


NOBODY = Author()


class Composer:
    """Makes the messages of a session, in the order they are given."""

    def __init__(self, enrich: Enrich | None, services: Mapping[str, Any]) -> None:
        self._enrich = enrich
        self._services = services
        self._turnstile = anyio.Lock(fast_acquire=True)
        self._under_way: list[anyio.CancelScope] = []

    def stop(self) -> None:
        """Nobody waits any more for what plugins add to the messages that are being made."""
        for scope in self._under_way:
            scope.cancel()

    async def message(
        self, text: str, attachments: Sequence[Media], source: Source, by: Author = NOBODY
    ) -> tuple[Message, bool]:
        """What was said as a message, and whether it was stopped meanwhile. Raises `ConfigError` for nothing at all."""
        text = clean(text or "")
        if not text and not attachments:
            raise ConfigError("The message is empty; say what the agent should do.")
        if self._enrich is None or source not in ("user", "parent"):
            return said(text, "", attachments, source, by), False
        with anyio.CancelScope() as scope:
            self._under_way.append(scope)
            try:
                async with self._turnstile:
                    added = await self._added(text)
            finally:
                self._under_way.remove(scope)
        if scope.cancelled_caught:
            return said(text, "", attachments, source, by), True
        if added.startswith(text):
            return said(text, added[len(text) :].lstrip("\n"), attachments, source, by), False
        return said(added, "", attachments, source, by), False

    async def _added(self, text: str) -> str:
        """The text as plugins would have it, who find the session among the services."""
        assert self._enrich is not None
        before = SERVICES.set(self._services)
        try:
            return clean(await self._enrich(text))
        finally:
            SERVICES.reset(before)


def said(text: str, added: str, attachments: Sequence[Media], source: Source, by: Author) -> Message:
    """A message of these parts; what was added to the words stays apart from them."""
    parts: list[Part] = [Text(labelled(text, source))] if text else []
    parts += attachments
    parts += [Text(added)] if added else []
    return Message("user", parts, id=new_id("m"), source=source, by=by.name, once=by.once)


def labelled(text: str, source: Source) -> str:
    """The text as the model reads it: what does not come from the user says so."""
    return text if source == "user" else f"[{source}] {text}"


def urgency(message: Message) -> int:
    """The place of a message among those that wait: the lowest is read first."""
    return URGENCY[message.source]
