"""Plans as a tool sees them: read from the fold, changed through the log."""

from __future__ import annotations

from jaato.agent.journal import Journal
from jaato.protocol.events import PlanCleared, PlanUpdated
from jaato.protocol.specs import Plan


class Plans:
    """The plans of a session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def current(self) -> Plan | None:
        """The plan in work."""
        return self._journal.state.plan

    @property
    def plans(self) -> dict[str, Plan]:
        """Every plan by id."""
        return self._journal.state.plans

    def update(self, plan: Plan) -> None:
        """Record a plan as it is now."""
        self._journal.record(PlanUpdated(**self._journal.head(), plan=plan))

    def clear(self, plan_id: str) -> None:
        """Forget a plan."""
        self._journal.record(PlanCleared(**self._journal.head(), plan_id=plan_id))
