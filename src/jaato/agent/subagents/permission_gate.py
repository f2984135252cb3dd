"""A subagent's gate: its own narrower rules, then those of the agent above it, which hold the grants."""

from __future__ import annotations

from msgspec import structs
from msgspec.structs import replace

from jaato.protocol.specs import AgentBounds, Grant, SandboxAccess
from jaato.tools.call import Call
from jaato.tools.permissions.access import FULL, READ_ONLY
from jaato.tools.permissions.decision import to_decision
from jaato.tools.permissions.gate import Decision, Gate, Policy, Verdict
from jaato.tools.tool import Tool


class SubagentGate(Gate):
    """Denies what the bounds exclude and asks the gate above about the rest. It never widens access.

    Grants are kept above: what was allowed for a turn lasts for the turn of the root agent.
    """

    def __init__(self, above: Gate, bounds: AgentBounds) -> None:
        super().__init__(above.policy, profiles=above.profiles)
        self._above = above
        self._narrow: Gate | None = None
        if bounds.deny or bounds.read_only:
            rules = Policy.of({"defaultPolicy": "allow"}, "the bounds of a subagent")
            rules = rules.with_flags(deny=bounds.deny, read_only=bounds.read_only, access=FULL)
            self._narrow = Gate(rules, profiles=above.profiles)

    async def check(self, call: Call, tool: Tool) -> Decision:
        """As the gate above, but for what is excluded here."""
        own = self._own(call, tool)
        if own is not None and own.effect == "deny":
            return to_decision(own)
        decision = await self._above.check(call, tool)
        access = narrower_access(decision.permission.access, own)
        if access is decision.permission.access:
            return decision
        return replace(decision, permission=structs.replace(decision.permission, access=access))

    def explain(self, call: Call, tool: Tool) -> Verdict:
        """As `check` would decide, without asking anyone."""
        own = self._own(call, tool)
        if own is not None and own.effect == "deny":
            return own
        verdict = self._above.explain(call, tool)
        return replace(verdict, access=narrower_access(verdict.access, own))

    def _own(self, call: Call, tool: Tool) -> Verdict | None:
        """Decide by the bounds alone; a command line that cannot be parsed is denied without a question."""
        if self._narrow is None:
            return None
        verdict = self._narrow.explain(call, tool)
        return replace(verdict, effect="deny") if verdict.method == "computed" else verdict

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


def narrower_access(access: SandboxAccess | None, own: Verdict | None) -> SandboxAccess | None:
    """What a process may reach where the bounds let it only read."""
    reading = access is not None and own is not None and own.access is not None
    return own.access if reading and own is not None and own.access == READ_ONLY else access
