"""The words of the agent, each shown once, however they come: in pieces, whole, or again after a lost connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from jaato.protocol.events import AgentOutput, Event, MessageModel, Retry, TurnCompleted


class Stream:
    """Passes events on to a listener; of an agent's words only those it has not had."""

    def __init__(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._shown: dict[tuple[str, str], int] = {}
        """Characters shown of the message that is being said, by agent and kind of text."""

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        match event:
            case AgentOutput():
                self._piece(event)
                return
            case MessageModel():
                self._rest(event)
            case Retry() | TurnCompleted():
                self._forget(event.agent_id)
        self._listener(event)

    def _piece(self, event: AgentOutput) -> None:
        key = (event.agent_id, event.source)
        shown = self._shown.get(key, 0)
        if event.offset > shown:
            return  # words are missing before these; the whole message brings them
        text = event.text[shown - event.offset :]
        if text:
            self._shown[key] = shown + len(text)
            self._listener(msgspec.structs.replace(event, text=text, offset=shown))

    def _rest(self, event: MessageModel) -> None:
        shown = self._shown.get((event.agent_id, "model"), 0)
        rest = event.message.text[shown:]
        if rest:
            head: dict[str, Any] = {
                "session_id": event.session_id,
                "agent_id": event.agent_id,
                "seq": event.seq,
                "timestamp": event.timestamp,
            }
            self._listener(AgentOutput(**head, source="model", text=rest, mode="append", offset=shown))
        self._forget(event.agent_id)

    def _forget(self, agent_id: str) -> None:
        for key in [key for key in self._shown if key[0] == agent_id]:
            del self._shown[key]
