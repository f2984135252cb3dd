"""What came of a run, folded from its events."""

from __future__ import annotations

from typing import Any

from jaato.protocol.events import BackgroundUpdated, Event, MessageModel, TurnCompleted


class Outcome:
    """A run of one agent: who answered, the turns it took, its last text, the calls it made, the tasks that still run."""

    def __init__(self) -> None:
        self.session_id = ""
        self.agent_id = ""
        self.provider = ""
        self.model = ""
        self.turns: list[TurnCompleted] = []
        self.below: list[TurnCompleted] = []
        """The turns of subagents."""
        self.text = ""
        self.arguments: dict[str, dict[str, Any]] = {}
        """What each call was asked with, by its id."""
        self.tasks: dict[str, BackgroundUpdated] = {}
        self.began = False
        """Whether the prompt is in the log: what ended before it is none of this run's."""

    def open(self, session_id: str, agent_id: str, provider: str, model: str) -> None:
        """The session is there."""
        self.session_id, self.agent_id, self.provider, self.model = session_id, agent_id, provider, model

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        match event:
            case MessageModel():
                self.arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
                if event.agent_id == self.agent_id:
                    self.text = event.message.text
            case TurnCompleted() if self.began:
                (self.turns if event.agent_id == self.agent_id else self.below).append(event)
            case BackgroundUpdated(status="running"):
                self.tasks[event.task_id] = event
            case BackgroundUpdated():
                self.tasks.pop(event.task_id, None)
