"""The eight plan tools and the `plan` command."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from jaato.abc.plugin import Host, Plugin, UserCommand
from jaato.plugins.todo.plans import (
    EndStatus,
    KeptPlans,
    PlanError,
    Plans,
    StepStatus,
    chosen,
    drawn,
    new_plan,
    next_step,
    open_plan,
    progress,
    shown,
    step_of,
    text_of,
    with_added,
    with_step,
)
from jaato.protocol.specs import Plan
from jaato.tools.call import CURRENT, Call
from jaato.tools.tool import tool

STEP_WORDS = {"todo_id": "step_id", "id": "step_id", "step": "step_id"}
PLAN_WORDS = {"todo_id": "plan_id", "id": "plan_id"}
TEXT_WORDS = {"text": "description", "content": "description", "task": "description", "title": "description"}


class TodoPlugin(Plugin):
    """Plans in steps. Tools are coroutines that never wait, so each change is made whole on the session's loop."""

    name: ClassVar[str] = "todo"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._kept: dict[str, KeptPlans] = {}
        self._lock = threading.Lock()

    def plans_of(self, call: Call | None) -> Plans:
        """The plans of the call's session; without one, those kept in memory."""
        if call is not None and "plans" in call.services:
            plans: Plans = call.services["plans"]
            return plans
        if call is None:
            try:
                offered: Plans = self.host.service("plans")
            except KeyError:
                pass
            else:
                return offered
        return self._kept.setdefault(call.session_id if call is not None else "", KeptPlans())

    @tool(category="coordination", access="read", core=True)
    async def createPlan(self, title: str, steps: list[str], *, call: Call) -> dict[str, Any]:
        """Plan work of three or more steps; keep it current."""
        with self._lock:
            plans = self.plans_of(call)
            plan = new_plan(plans, title, steps)
            plans.update(plan)
        return shown(plan)

    @tool(category="coordination", access="read", core=True)
    async def startPlan(self, plan_id: str | None = None, *, call: Call) -> dict[str, Any]:
        """Begin or reopen a plan."""
        with self._lock:
            plans = self.plans_of(call)
            plan = msgspec.structs.replace(chosen(plans, plan_id), status="active", summary=None)
            plans.update(plan)
        return brief(plan)

    @tool(
        category="coordination",
        access="read",
        core=True,
        aliases={"updateStep": STEP_WORDS, "update_todo_step": STEP_WORDS},
    )
    async def setStepStatus(
        self, step_id: str, status: StepStatus, result: str | None = None, *, call: Call
    ) -> dict[str, Any]:
        """Report a step's progress as you go."""
        with self._lock:
            plans = self.plans_of(call)
            plan = open_plan(plans)
            at = step_of(plan, step_id)
            plan = with_step(plan, at, status, result)
            plans.update(plan)
        return {"step_id": plan.steps[at].id, "status": status} | brief(plan)

    @tool(category="coordination", access="read", core=True, aliases={"get_todo": PLAN_WORDS})
    async def getPlanStatus(self, plan_id: str | None = None, *, call: Call) -> dict[str, Any]:
        """Show a plan's steps."""
        with self._lock:
            return shown(chosen(self.plans_of(call), plan_id))

    @tool(category="coordination", access="read", core=True, aliases={"add_todo": TEXT_WORDS})
    async def addStep(
        self, description: str, after_step_id: str | None = None, *, call: Call
    ) -> dict[str, Any]:
        """Add a step, by default last."""
        with self._lock:
            plans = self.plans_of(call)
            plan, step = with_added(open_plan(plans), text_of(description, "step"), after_step_id)
            plans.update(plan)
        return {"step_id": step.id} | brief(plan)

    @tool(category="coordination", access="read", core=True, aliases={"mark_todo_complete": {}})
    async def completePlan(
        self, status: EndStatus = "completed", summary: str | None = None, *, call: Call
    ) -> dict[str, Any]:
        """End the plan."""
        with self._lock:
            plans = self.plans_of(call)
            plan = msgspec.structs.replace(
                open_plan(plans), status=status, summary=text_of(summary, "summary") if summary else None
            )
            plans.update(plan)
        unfinished = [step.id for step in plan.steps if step.status in ("pending", "in_progress")]
        ended: dict[str, Any] = {"plan_id": plan.id, "status": status, "progress": progress(plan)}
        return ended | ({"unfinished_steps": unfinished} if unfinished else {})

    @tool(category="coordination", access="read", core=True, aliases={"list_todos": {}})
    async def listPlans(self, *, call: Call) -> dict[str, Any]:
        """List the plans of this session."""
        with self._lock:
            plans = self.plans_of(call)
            current = plans.current
            entries = [
                {"plan_id": plan.id, "title": plan.title, "status": plan.status, "progress": progress(plan)}
                for plan in plans.plans.values()
            ]
        return {"plans": entries, "current": current.id if current is not None else None}

    @tool(
        category="coordination",
        access="read",
        core=True,
        aliases={"delete_todo": PLAN_WORDS, "clear_todos": {}},
    )
    async def clearPlan(self, plan_id: str | None = None, *, call: Call) -> dict[str, Any]:
        """Delete a plan."""
        with self._lock:
            plans = self.plans_of(call)
            plan = chosen(plans, plan_id)
            plans.clear(plan.id)
        return {"cleared": plan.id}

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`plan`: what the model is about."""
        return {UserCommand("plan", "Show the plan: plan [list | ID | clear [ID]]"): self.show_plan}

    def show_plan(self, line: str) -> str:
        """The answer to `plan`, `plan list`, `plan ID` and `plan clear [ID]`."""
        words = line.split()
        try:
            with self._lock:
                plans = self.plans_of(CURRENT.get())
                match words:
                    case []:
                        return drawn(plans.current) if plans.current is not None else "There is no plan."
                    case ["list"]:
                        return "\n".join(map(headline, plans.plans.values())) or "There is no plan."
                    case ["clear", *rest] if len(rest) <= 1:
                        plan = chosen(plans, rest[0] if rest else None)
                        plans.clear(plan.id)
                        return f"Plan {plan.id} is cleared."
                    case [plan_id]:
                        return drawn(chosen(plans, plan_id))
        except PlanError as error:
            return str(error)
        return "Usage: plan [list | ID | clear [ID]]"


def brief(plan: Plan) -> dict[str, Any]:
    """Where the plan stands and what comes next; the steps themselves the model has seen."""
    coming = next_step(plan)
    view: dict[str, Any] = {"plan_id": plan.id, "plan_status": plan.status, "progress": progress(plan)}
    return view | ({"next": f"{coming.id}. {coming.description}"} if coming is not None else {})


def headline(plan: Plan) -> str:
    """One line about a plan."""
    return drawn(plan).partition("\n")[0]
