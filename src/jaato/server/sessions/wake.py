"""Wakes an idle agent when its background task or background subagent has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from jaato.protocol.events import AgentCompleted, BackgroundUpdated, Event, MessageUser, TurnCompleted
from jaato.server.sessions.session_pool import Live

MAX_WAKES = 25
"""Turns in a row that are started without a message of a user."""


class Waker:
    """Listens to the events of a session and starts a turn with the message about background work that has ended.

    There is no turn after one that was stopped or failed, nor after `MAX_WAKES` in a row: the message then waits for the
    user's next one. `start` runs a turn beside the caller.
    """

    def __init__(self, live: Live, start: Callable[[Callable[[], Awaitable[object]]], None]) -> None:
        self._live = live
        self._session = live.session
        self._start = start
        self._last_turn_ended_well = True
        self._wakes = 0

    def __call__(self, event: Event) -> None:
        """Take one event."""
        root = self._session.state.agent_id
        match event:
            case MessageUser(agent_id=agent, message=message) if agent == root and message.source == "user":
                self._wakes = 0
            case TurnCompleted(agent_id=agent) if agent == root:
                self._last_turn_ended_well = event.reason == "stop"
            case BackgroundUpdated(agent_id=agent, status="completed" | "failed") if agent == root:
                self._start_wake()
            case AgentCompleted(reason="completed" | "failed") if self._is_child(event.agent_id):
                self._start_wake()

    def _is_child(self, agent_id: str) -> bool:
        session = self._session
        return session.journal.session_state.parent_of(agent_id) == session.state.agent_id

    def _start_wake(self) -> None:
        """Start a wake; from now until it has ended, the session is not evicted."""
        use = ExitStack()
        use.enter_context(self._live.in_use())
        self._start(partial(self._wake, use))

    async def _wake(self, use: ExitStack) -> None:
        """Start a turn with the queued messages, unless one runs, which delivers them, or the user decides when to continue.
        A compaction delivers nothing: the turn begins after it."""
        with use:
            session = self._session
            if session.turns.is_compacting:
                await session.turns.wait_idle()
            if self._last_turn_ended_well and not session.is_interrupted and self._wakes < MAX_WAKES:
                began = await session.run_queued() is not None
                self._wakes += began  # after the turn, in which a message of the user may have reset it
