"""Messages to an agent: as the model will read them, with what plugins add, and those that wait for a pause."""

from __future__ import annotations

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
    """Whose message it is, where several may speak, and the sender's own word for it."""

    name: str = ""
    once: str = ""


NO_AUTHOR = Author()


class Inbox:
    """The messages to one agent: made in the order they are given, and those that wait for the next pause.

    `messages` are the waiting ones, the most important first.
    """

    def __init__(self, journal: Journal, enrich: Enrich | None, services: Mapping[str, Any]) -> None:
        self._journal = journal
        self._enrich = enrich
        self._services = services
        self._turnstile = anyio.Lock(fast_acquire=True)
        self._enriching: list[anyio.CancelScope] = []
        self.messages: list[Message] = sorted(journal.state.queued.values(), key=urgency)

    def stop_enriching(self) -> None:
        """Nobody waits any more for what plugins add to the messages that are being made."""
        for scope in self._enriching:
            scope.cancel()

    async def compose(
        self, text: str, attachments: Sequence[Media], source: Source, author: Author = NO_AUTHOR
    ) -> tuple[Message, bool]:
        """What was said as a message, and whether it was stopped meanwhile. Raises `ConfigError` for nothing at all."""
        text = replace_surrogates(text or "")
        if not text and not attachments:
            raise ConfigError("The message is empty; say what the agent should do.")
        if self._enrich is None or source not in ("user", "parent"):
            return message_of(text, "", attachments, source, author), False
        with anyio.CancelScope() as scope:
            self._enriching.append(scope)
            try:
                async with self._turnstile:
                    enriched = await self._enriched(text)
            finally:
                self._enriching.remove(scope)
        if scope.cancelled_caught:
            return message_of(text, "", attachments, source, author), True
        if enriched.startswith(text):
            added = enriched[len(text) :].lstrip("\n")
            return message_of(text, added, attachments, source, author), False
        return message_of(enriched, "", attachments, source, author), False

    async def _enriched(self, text: str) -> str:
        """The text as plugins would have it, who find the session among the services."""
        assert self._enrich is not None
        before = SERVICES.set(self._services)
        try:
            return replace_surrogates(await self._enrich(text))
        finally:
            SERVICES.reset(before)

    def queue(self, message: Message, *before: Event) -> None:
        """Let a message wait for the next pause. Events that are given share its commit. Raises `StoreError`."""
        journal = self._journal
        journal.record(*before, MidTurnQueued(**journal.head(), message=message))
        self.messages.append(message)
        self.messages.sort(key=urgency)

    def notify(
        self, text: str, source: Source = "system", *before: Event, author: Author = NO_AUTHOR
    ) -> None:
        """Tell the model something at the next pause; nobody is woken for it. Events that are given share its commit."""
        self.queue(message_of(text, "", (), source, author), *before)

    def deliver(self, message: Message, turn_id: str) -> None:
        """Let a message join the conversation, in this turn. Raises `StoreError`."""
        journal = self._journal
        said = MessageUser(**journal.head(), message=message, turn_id=turn_id)
        if message.id not in journal.state.queued:
            journal.record(said)
            return
        journal.record(said, MidTurnInjected(**journal.head(), message_id=message.id))
        self.messages = [waiting for waiting in self.messages if waiting is not message]


def message_of(
    text: str, added: str, attachments: Sequence[Media], source: Source, author: Author
) -> Message:
    """A message of these parts; what was added to the words stays apart from them."""
    parts: list[Part] = [Text(labelled(text, source))] if text else []
    parts += attachments
    parts += [Text(added)] if added else []
    return Message("user", parts, id=new_id("m"), source=source, by=author.name, once=author.once)


def labelled(text: str, source: Source) -> str:
    """The text as the model reads it: what does not come from the user says so."""
    return text if source == "user" else f"[{source}] {text}"


def urgency(message: Message) -> int:
    """The place of a message among those that wait: the lowest is read first."""
    return URGENCY[message.source]
