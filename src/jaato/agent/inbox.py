"""Inbox of an agent: composes messages, enriched by plugins, and queues those that arrive while a turn runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio

from jaato.agent.journal import Journal
from jaato.errors import ConfigError
from jaato.protocol.events import Event, MessageUser, MidTurnInjected, MidTurnQueued
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, Message, Part, Source, Text
from jaato.tools.call import SERVICES, replace_surrogates

Enrich = Callable[[str], Awaitable[str]]
URGENCY: dict[Source, int] = {"parent": 0, "user": 1, "system": 2, "child": 3}


class Author(NamedTuple):
    """The author of a message where there are several, and the sender's idempotency key `once`."""

    name: str = ""
    once: str = ""


NO_AUTHOR = Author()


class Inbox:
    """Composes messages in the order they arrive, and queues them until the next model call.

    `messages` are the queued ones, the most urgent first.
    """

    def __init__(self, journal: Journal, enrich: Enrich | None, services: Mapping[str, Any]) -> None:
        self._journal = journal
        self._enrich = enrich
        self._services = services
        self._turnstile = asyncio.Lock()
        self._enriching: list[anyio.CancelScope] = []
        self.messages: list[Message] = sorted(journal.state.queued.values(), key=urgency)

    def stop_enriching(self) -> None:
        """Cancel the enrichment of messages that are being composed."""
        for scope in self._enriching:
            scope.cancel()

    async def compose(
        self, text: str, attachments: Sequence[Media], source: Source, author: Author = NO_AUTHOR
    ) -> tuple[Message, bool]:
        """Build a message; also returns whether its enrichment was cancelled. Raises `ConfigError` for an empty one."""
        text = replace_surrogates(text or "")
        if not text and not attachments:
            raise ConfigError("The message is empty; say what the agent should do.")
        if self._enrich is None or source not in ("user", "parent"):
            return message_of(text, "", attachments, source, author), False
        with anyio.CancelScope() as scope:
            self._enriching.append(scope)
            try:
                async with self._turnstile:
                    enriched = await self._enrich_text(text)
            finally:
                self._enriching.remove(scope)
        if scope.cancelled_caught:
            return message_of(text, "", attachments, source, author), True
        if enriched.startswith(text):
            added = enriched[len(text) :].lstrip("\n")
            return message_of(text, added, attachments, source, author), False
        return message_of(enriched, "", attachments, source, author), False

    async def _enrich_text(self, text: str) -> str:
        """The text as enriched by the plugins, which can reach the session's services."""
        assert self._enrich is not None
        before = SERVICES.set(self._services)
        try:
            return replace_surrogates(await self._enrich(text))
        finally:
            SERVICES.reset(before)

    def queue(self, message: Message, *before: Event) -> None:
        """Queue a message for the next model call. Given events share its commit. Raises `StoreError`."""
        journal = self._journal
        journal.record(*before, MidTurnQueued(**journal.head(), message=message))
        self.messages.append(message)
        self.messages.sort(key=urgency)

    def notify(
        self, text: str, source: Source = "system", *before: Event, author: Author = NO_AUTHOR
    ) -> None:
        """Queue a message for the model without starting a turn. Given events share its commit."""
        self.queue(message_of(text, "", (), source, author), *before)

    def deliver(self, message: Message, turn_id: str) -> None:
        """Add a message to the conversation of this turn. Raises `StoreError`."""
        journal = self._journal
        event = MessageUser(**journal.head(), message=message, turn_id=turn_id)
        if message.id not in journal.state.queued:
            journal.record(event)
            return
        journal.record(event, MidTurnInjected(**journal.head(), message_id=message.id))
        self.messages = [waiting for waiting in self.messages if waiting is not message]


def message_of(
    text: str, added: str, attachments: Sequence[Media], source: Source, author: Author
) -> Message:
    """Build a message; text added by plugins is a part of its own."""
    parts: list[Part] = [Text(add_label(text, source))] if text else []
    parts += attachments
    parts += [Text(added)] if added else []
    return Message("user", parts, id=new_id("m"), source=source, by=author.name, once=author.once)


def add_label(text: str, source: Source) -> str:
    """The text as the model reads it, labelled with its source unless that is the user."""
    return text if source == "user" else f"[{source}] {text}"


def urgency(message: Message) -> int:
    """The sort key of a queued message: the lowest is delivered first."""
    return URGENCY[message.source]
