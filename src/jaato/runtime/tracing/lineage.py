"""Which call a subagent's turn belongs to: the log does not say it, the calls that were open then do."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaato.protocol.events import AgentCreated, ToolCallStart

GIVING = {"delegate": "task", "continue_subagent": "message"}
"""Tools that give a task to a subagent, and the argument it stands in."""
KEPT = 64
"""How many calls are remembered that gave a task nobody has begun yet."""


@dataclass(frozen=True, slots=True)
class Giver:
    """A call that gives a task: whose, as which span of which trace, the name it wants for the agent, the text."""

    agent_id: str
    trace_id: str
    span_id: str
    name: str
    text: str


@dataclass(slots=True)
class Lineage:
    """The calls whose subagents have not begun yet. Each gives one turn."""

    _givers: list[Giver] = field(default_factory=list)
    _made_by: dict[str, Giver] = field(default_factory=dict)

    def begun(self, event: ToolCallStart, trace_id: str, span_id: str) -> None:
        """A call has begun; it may be one that gives a task."""
        argument = GIVING.get(event.tool)
        if argument is None:
            return
        text, name = event.arguments.get(argument), event.arguments.get("name")
        giver = Giver(
            event.agent_id,
            trace_id,
            span_id,
            name if isinstance(name, str) and event.tool == "delegate" else "",
            text if isinstance(text, str) else "",
        )
        self._givers = [*self._givers, giver][-KEPT:]

    def made(self, event: AgentCreated) -> None:
        """A subagent is there: made by the call that wanted its name, else by the first that has made none."""
        free = [
            one
            for one in self._givers
            if one.agent_id == event.parent_agent_id and one not in self._made_by.values()
        ]
        named = [one for one in free if one.name and event.name.startswith(one.name)]
        found = next(iter(named or [one for one in free if not one.name]), None)
        if found is not None:
            self._made_by[event.agent_id] = found

    def giver(self, agent_id: str, parent_id: str | None, text: str) -> Giver | None:
        """The call whose task an agent begins with this text; None when none is known, as for a turn of its own."""
        of_parent = [one for one in self._givers if one.agent_id == parent_id]
        made = self._made_by.pop(agent_id, None)
        saying = [one for one in of_parent if one.text and one.text in text]
        found = made if made is not None and (not saying or made in saying) else next(iter(saying), made)
        if found in self._givers:
            self._givers.remove(found)
        return found
