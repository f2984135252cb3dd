"""A subagent's gate: its own narrower rules, then those of the agent above it, which hold the grants."""

from __future__ import annotations

from jaato.protocol.specs import AgentBounds, Grant
from jaato.tools.call import Call
from jaato.tools.permissions import Decision, Gate, Policy, Verdict
from jaato.tools.tool import Tool
from jaato.tools.verdict import settled


class NarrowGate(Gate):
    """Denies what the bounds exclude and asks the gate above about the rest. It widens nothing, whatever it is told.

    Grants are kept above: what was allowed for a turn lasts for the turn of the root agent.
    """

    def __init__(self, above: Gate, bounds: AgentBounds) -> None:
        super().__init__(above.policy)
        self._above = above
        self._narrow: Gate | None = None
        if bounds.deny or bounds.read_only:
            rules = Policy.of({"defaultPolicy": "allow"}, "the bounds of a subagent")
            self._narrow = Gate(rules.with_flags(deny=bounds.deny, read_only=bounds.read_only))

    async def check(self, call: Call, tool: Tool) -> Decision:
        """As the gate above, but for what is excluded here."""
        excluded = self._excluded(call, tool)
        return settled(excluded) if excluded is not None else await self._above.check(call, tool)

    def explain(self, call: Call, tool: Tool) -> Verdict:
        """As `check` would decide, without asking anyone."""
        return self._excluded(call, tool) or self._above.explain(call, tool)

    def _excluded(self, call: Call, tool: Tool) -> Verdict | None:
        if self._narrow is None:
            return None
        verdict = self._narrow.explain(call, tool)
        return verdict if verdict.effect == "deny" else None

    def end_turn(self) -> None:
        """Grants for a turn are the root's to end."""

    def go_idle(self) -> None:
        """Grants until the agent rests are the root's to end."""

    def grants(self) -> list[Grant]:
        """Those of the gate above."""
        return self._above.grants()

    def revoke(self, grant_id: str) -> None:
        """End a grant of the gate above; raises as that does."""
        self._above.revoke(grant_id)
