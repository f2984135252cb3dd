"""The plugin `todo`: plans, the rules by which their steps change, their eight tools and the `plan` command."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from jaato.abc.plugin import Host, Plugin, UserCommand
from jaato.errors import ToolError
from jaato.protocol.specs import Plan, PlanStep
from jaato.tools.call import CURRENT, Call
from jaato.tools.host_services import service_of
from jaato.tools.tool import tool

StepStatus = Literal["pending", "in_progress", "completed", "failed", "skipped"]
EndStatus = Literal["completed", "failed", "cancelled"]

MAX_STEPS = 200
MAX_TEXT = 2000
OPEN = ("draft", "active")
DONE = ("completed", "skipped")
MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "failed": "[!]", "skipped": "[-]"}
STEP_WORDS = {"todo_id": "step_id", "id": "step_id", "step": "step_id"}
PLAN_WORDS = {"todo_id": "plan_id", "id": "plan_id"}
TEXT_WORDS = {"text": "description", "content": "description", "task": "description", "title": "description"}


class PlanError(ToolError):
    """The plan or step is not there, or may not change that way."""

    code = "plan_invalid"


class Plans(Protocol):
    """Where plans are kept: a session folds them from its log and logs each change."""

    @property
    def current(self) -> Plan | None: ...

    @property
    def plans(self) -> dict[str, Plan]: ...

    def update(self, plan: Plan) -> None: ...

    def clear(self, plan_id: str) -> None: ...


class InMemoryPlans:
    """Plans in memory, for calls without a session; the current plan is the one changed last."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.current: Plan | None = None

    def update(self, plan: Plan) -> None:
        """Keep the plan as it is now."""
        self.plans[plan.id] = plan
        self.current = plan

    def clear(self, plan_id: str) -> None:
        """Forget the plan."""
        self.plans.pop(plan_id, None)
        if self.current is not None and self.current.id == plan_id:
            self.current = None


def require_text(text: str, what: str) -> str:
    """The text without space around it; raises `PlanError` when it is empty or too long."""
    text = text.strip()
    if not text:
        raise PlanError(f"The {what} is empty. Say in a few words what is to be done.")
    if len(text) > MAX_TEXT:
        raise PlanError(
            f"The {what} has {len(text)} characters; at most {MAX_TEXT} are possible. Shorten it."
        )
    return text


def new_plan(plans: Plans, title: str, steps: list[str]) -> Plan:
    """A draft with these steps, numbered from 1."""
    if not steps:
        raise PlanError("The plan has no steps. Give at least one.")
    numbers = [int(name[1:]) for name in plans.plans if re.fullmatch(r"p[0-9]{1,9}", name)]
    made = [PlanStep(str(at), require_text(step, f"step {at}")) for at, step in enumerate(steps, 1)]
    return check_size(Plan(f"p{max(numbers, default=0) + 1}", require_text(title, "title"), made))


def check_size(plan: Plan) -> Plan:
    """The plan, unless it has too many steps."""
    if len(plan.steps) > MAX_STEPS:
        raise PlanError(f"A plan has at most {MAX_STEPS} steps. Join some, or make a second plan.")
    return plan


def find_plan(plans: Plans, plan_id: str | None) -> Plan:
    """The plan with this id, or the current one; raises `PlanError` that names the ids there are."""
    if plan_id is None:
        if plans.current is not None:
            return plans.current
        known = ", ".join(plans.plans)
        raise PlanError(
            f"No plan is current. Give plan_id: {known}." if known else "There is no plan. Use createPlan."
        )
    plan = plans.plans.get(plan_id.strip())
    if plan is None:
        known = ", ".join(plans.plans) or "none yet, use createPlan"
        raise PlanError(f"There is no plan {plan_id!r}. Plans: {known}.")
    return plan


def open_plan(plans: Plans) -> Plan:
    """The current plan, which must not have ended."""
    plan = find_plan(plans, None)
    if plan.status not in OPEN:
        raise PlanError(
            f"Plan {plan.id} is {plan.status}. startPlan opens it again, createPlan makes another."
        )
    return plan


def find_step(plan: Plan, step_id: str) -> int:
    """Where the step with this id stands; raises `PlanError` that names the ids there are."""
    wanted = step_id.strip().lower().removeprefix("step").strip(" #.:")
    for at, step in enumerate(plan.steps):
        if step.id == wanted:
            return at
    known = ", ".join(step.id for step in plan.steps)
    raise PlanError(f"Plan {plan.id} has no step {step_id!r}. Steps: {known}.")


def set_step_status(plan: Plan, at: int, status: StepStatus, result: str | None) -> Plan:
    """The plan with one step's status set, and under way; a result that is not given stays."""
    old = plan.steps[at]
    kept = old.result if result is None else result.strip()[:MAX_TEXT] or None
    steps = [*plan.steps]
    steps[at] = PlanStep(old.id, old.description, status, kept)
    return msgspec.structs.replace(plan, steps=steps, status="active")


def add_step(plan: Plan, description: str, after: str | None) -> tuple[Plan, PlanStep]:
    """The plan with one more step, and that step; other steps keep their ids."""
    at = len(plan.steps) if after is None else find_step(plan, after) + 1
    step = PlanStep(
        str(max((int(step.id) for step in plan.steps if step.id.isdecimal()), default=0) + 1), description
    )
    return check_size(msgspec.structs.replace(plan, steps=[*plan.steps[:at], step, *plan.steps[at:]])), step


def progress(plan: Plan) -> str:
    """How far the plan is, as `done/all`."""
    return f"{sum(step.status in DONE for step in plan.steps)}/{len(plan.steps)}"


def next_step(plan: Plan) -> PlanStep | None:
    """The step that is under way, else the first that waits."""
    for status in ("in_progress", "pending"):
        for step in plan.steps:
            if step.status == status:
                return step
    return None


def plan_row(plan: Plan) -> dict[str, Any]:
    """The whole plan as a model reads it."""
    steps = [msgspec.to_builtins(step) | {"status": step.status} for step in plan.steps]
    view = {
        "plan_id": plan.id,
        "title": plan.title,
        "status": plan.status,
        "progress": progress(plan),
        "steps": steps,
    }
    return view | ({"summary": plan.summary} if plan.summary else {})


def render_plan(plan: Plan) -> str:
    """The plan as a person reads it in a terminal."""
    lines = [f"{plan.id}  {plan.title}  ({plan.status}, {progress(plan)})"]
    for step in plan.steps:
        lines.append(f"  {MARKS[step.status]} {step.id}. {step.description}")
        if step.result:
            lines.append(f"        {step.result}")
    if plan.summary:
        lines.append(f"  {plan.summary}")
    return "\n".join(lines)


class TodoPlugin(Plugin):
    """Plans in steps. Tools are coroutines that never wait, so each change is made whole on the session's loop."""

    name: ClassVar[str] = "todo"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._kept: dict[str, InMemoryPlans] = {}
        self._lock = threading.Lock()

    def plans_of(self, call: Call | None) -> Plans:
        """The plans of the call's session; without one, those kept in memory."""
        plans: Plans | None = service_of(self.host, "plans") if call is None else call.services.get("plans")
        if plans is not None:
            return plans
        return self._kept.setdefault(call.session_id if call is not None else "", InMemoryPlans())

    @tool(category="coordination", access="read", core=True)
    async def createPlan(self, title: str, steps: list[str], *, call: Call) -> dict[str, Any]:
        """Plan work of three or more steps; keep it current."""
        with self._lock:
            plans = self.plans_of(call)
            plan = new_plan(plans, title, steps)
            plans.update(plan)
        return plan_row(plan)

    @tool(category="coordination", access="read", core=True)
    async def startPlan(self, plan_id: str | None = None, *, call: Call) -> dict[str, Any]:
        """Begin or reopen a plan."""
        with self._lock:
            plans = self.plans_of(call)
            plan = msgspec.structs.replace(find_plan(plans, plan_id), status="active", summary=None)
            plans.update(plan)
        return plan_progress(plan)

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
            at = find_step(plan, step_id)
            plan = set_step_status(plan, at, status, result)
            plans.update(plan)
        return {"step_id": plan.steps[at].id, "status": status} | plan_progress(plan)

    @tool(category="coordination", access="read", core=True, aliases={"get_todo": PLAN_WORDS})
    async def getPlanStatus(self, plan_id: str | None = None, *, call: Call) -> dict[str, Any]:
        """Show a plan's steps."""
        with self._lock:
            return plan_row(find_plan(self.plans_of(call), plan_id))

    @tool(category="coordination", access="read", core=True, aliases={"add_todo": TEXT_WORDS})
    async def addStep(
        self, description: str, after_step_id: str | None = None, *, call: Call
    ) -> dict[str, Any]:
        """Add a step, by default last."""
        with self._lock:
            plans = self.plans_of(call)
            plan, step = add_step(open_plan(plans), require_text(description, "step"), after_step_id)
            plans.update(plan)
        return {"step_id": step.id} | plan_progress(plan)

    @tool(category="coordination", access="read", core=True, aliases={"mark_todo_complete": {}})
    async def completePlan(
        self, status: EndStatus = "completed", summary: str | None = None, *, call: Call
    ) -> dict[str, Any]:
        """End the plan."""
        with self._lock:
            plans = self.plans_of(call)
            plan = msgspec.structs.replace(
                open_plan(plans), status=status, summary=require_text(summary, "summary") if summary else None
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
            plan = find_plan(plans, plan_id)
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
                        return (
                            render_plan(plans.current) if plans.current is not None else "There is no plan."
                        )
                    case ["list"]:
                        return "\n".join(map(headline, plans.plans.values())) or "There is no plan."
                    case ["clear", *rest] if len(rest) <= 1:
                        plan = find_plan(plans, rest[0] if rest else None)
                        plans.clear(plan.id)
                        return f"Plan {plan.id} is cleared."
                    case [plan_id]:
                        return render_plan(find_plan(plans, plan_id))
        except PlanError as error:
            return str(error)
        return "Usage: plan [list | ID | clear [ID]]"


def plan_progress(plan: Plan) -> dict[str, Any]:
    """Where the plan stands and what comes next; the steps themselves the model has seen."""
    coming = next_step(plan)
    view: dict[str, Any] = {"plan_id": plan.id, "plan_status": plan.status, "progress": progress(plan)}
    return view | ({"next": f"{coming.id}. {coming.description}"} if coming is not None else {})


def headline(plan: Plan) -> str:
    """One line about a plan."""
    return render_plan(plan).partition("\n")[0]
