"""Streamed text, each piece once, across reconnections."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jaato.protocol.events import AgentOutput, Event, MessageModel, Retry, TurnCompleted


class DeltaFilter:
    """Passes events to a listener; of streamed text only what it has not received."""

    def __init__(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        self._passed: dict[tuple[str, str], int] = {}
        """The number of characters passed on of the current message, by agent and source."""

    def __call__(self, event: Event) -> None:
        """Pass on one event."""
        match event:
            case AgentOutput():
                self._pass_delta(event)
                return
            case MessageModel():
                passed = self._passed.get((event.agent_id, "model"), 0)
                if rest := event.message.text[passed:]:
                    self._listener(
                        AgentOutput(
                            session_id=event.session_id,
                            agent_id=event.agent_id,
                            seq=event.seq,
                            timestamp=event.timestamp,
                            source="model",
                            text=rest,
                            mode="append",
                            offset=passed,
                        )
                    )
                self._reset(event.agent_id)
            case Retry() | TurnCompleted():
                self._reset(event.agent_id)
        self._listener(event)

    def _pass_delta(self, event: AgentOutput) -> None:
        key = (event.agent_id, event.source)
        passed = self._passed.get(key, 0)
        if event.offset > passed:
            return  # text before it is missing; the complete message has it
        text = event.text[passed - event.offset :]
        if text:
            self._passed[key] = passed + len(text)
            self._listener(msgspec.structs.replace(event, text=text, offset=passed))

    def reset(self) -> None:
        """Expect every message from its beginning, as a new process sends it."""
        self._passed.clear()

    def _reset(self, agent_id: str) -> None:
        for key in [key for key in self._passed if key[0] == agent_id]:
            del self._passed[key]
