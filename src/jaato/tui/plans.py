"""The plans of the agents: beside the conversation, or as one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.strip import Strip

from jaato.cli.output.console import one_line
from jaato.protocol.events.state import State
from jaato.protocol.specs import Plan
from jaato.tui.lines_view import LinesView
from jaato.tui.transcript.lines import add_prefix, clean, lay_out_words
from jaato.tui.transcript.looks import Looks

STEP_MARKS = {"completed": "✓", "in_progress": "▸", "failed": "✗", "skipped": "-", "pending": "·"}
NARROW = 96
"""Columns below which the plan is one line above the prompt."""


def find_plans(state: State) -> list[tuple[str, Plan]]:
    """The current plan of each agent that has one, the root agent's first."""
    agents = sorted(state.agents.values(), key=lambda agent: agent.id != state.root_agent_id)
    found = [(agent.id, agent.plans.get(agent.plan_id or "")) for agent in agents]
    return [(agent_id, plan) for agent_id, plan in found if plan is not None]


def find_active_plans(state: State) -> list[tuple[str, Plan]]:
    """Those that are under way."""
    return [(agent_id, plan) for agent_id, plan in find_plans(state) if plan.status in ("draft", "active")]


def summarize_plan(plan: Plan) -> str:
    """A plan in one line."""
    done = sum(step.status in ("completed", "skipped") for step in plan.steps)
    now = next((step.description for step in plan.steps if step.status == "in_progress"), plan.title)
    return f"plan {done}/{len(plan.steps)}: {one_line(now, 200)}"


def lay_out_plan(
    plans: Sequence[tuple[str, Plan]], name_of: Callable[[str], str], width: int, looks: Looks
) -> list[Strip]:
    """The plans, a line for each step."""
    styles = {"completed": looks.dim, "in_progress": looks.strong, "failed": looks.bad, "skipped": looks.dim}
    marks = {"completed": looks.good, "in_progress": looks.accent, "failed": looks.bad}
    found: list[Strip] = []
    for agent_id, plan in plans:
        if found:
            found.append(Strip([], 0))
        name = name_of(agent_id)
        title = f"{one_line(name, 40)}: {plan.title}" if name else plan.title
        found += lay_out_words(one_line(clean(title), 200), width, looks.heading)
        for step in plan.steps:
            mark = STEP_MARKS.get(step.status, "·")
            text = lay_out_words(
                one_line(step.description, 300), width - 2, styles.get(step.status, looks.text)
            )
            found += add_prefix(text, f"{mark} ", "  ", marks.get(step.status, looks.dim))
    return found


class PlanPanel(LinesView):
    """Shows plans from where they stand: the current step is visible in a plan that is higher than the panel."""

    def _lay_out_again(self) -> None:
        super()._lay_out_again()
        self.call_after_refresh(self._show_current)

    def on_resize(self) -> None:
        """Show the current step in the new height."""
        super().on_resize()
        self.call_after_refresh(self._show_current)

    def _show_current(self) -> None:
        """Scroll to the first step that is in progress, else to the first pending one, with those before it above."""
        starts = [strip.text[:2] for strip in self._strips]
        marks = [f"{STEP_MARKS[status]} " for status in ("in_progress", "pending")]
        current = next((starts.index(mark) for mark in marks if mark in starts), 0)
        self.scroll_to(y=max(0, current - self.size.height // 3), animate=False, force=True)
