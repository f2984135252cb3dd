"""Which subagents there are in a session and what they are called, folded from its events."""

from __future__ import annotations

from collections.abc import Mapping

from jaato.protocol.events import AgentCreated, Event
from jaato.protocol.events.state import AgentView


class Kin:
    """The agents below the one the user talks to. Takes in events before they are told."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        if isinstance(event, AgentCreated) and event.parent_agent_id is not None:
            self._known[event.agent_id] = event.name, event.parent_agent_id

    def restore(self, agents: Mapping[str, AgentView]) -> None:
        """Those of a session that is joined."""
        for agent in agents.values():
            if agent.parent_agent_id is not None:
                self._known[agent.id] = agent.name, agent.parent_agent_id

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def name_of(self, agent_id: str) -> str:
        """The names from the agent below the root down to this one, with `/` between them; empty for the root's own id."""
        names: list[str] = []
        while agent_id in self._known and len(names) < len(self._known):
            name, agent_id = self._known[agent_id]
            names.append(name)
        return "/".join(reversed(names))
