"""The eight plan tools and the `plan` command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato.abc.plugin import UserCommand
from jaato.errors import ToolError
from jaato.plugins.todo import InMemoryPlans, PlanError, TodoPlugin
from jaato.protocol.specs import Plan
from jaato.tools.call import CURRENT, Call
from jaato.tools.tool import Tool, tools_of

NAMES = [
    "createPlan",
    "startPlan",
    "setStepStatus",
    "getPlanStatus",
    "addStep",
    "completePlan",
    "listPlans",
    "clearPlan",
]


class Desk:
    """A host without services."""

    workspace = Path()
    config: Mapping[str, Any] = {}

    def service(self, name: str) -> Any:
        raise KeyError(name)


class LoggedPlans(InMemoryPlans):
    """Plans as a session keeps them: every change is an event."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Plan | str] = []

    def update(self, plan: Plan) -> None:
        super().update(plan)
        self.log.append(plan)

    def clear(self, plan_id: str) -> None:
        super().clear(plan_id)
        self.log.append(plan_id)


class Table:
    """The plugin at work: call a tool by its name or any alias of it."""

    def __init__(self, services: dict[str, Any] | None = None) -> None:
        self.plugin = TodoPlugin(Desk())
        self.tools = tools_of(self.plugin, "todo")
        self.services = services or {}

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.tools if tool.name == name or name in tool.aliases)

    def __call__(self, name: str, **arguments: Any) -> Any:
        tool = self.tool(name)
        renames = tool.aliases.get(name, {})
        arguments = {renames.get(key, key): value for key, value in arguments.items()}
        assert tool.issues(arguments) == []

        async def main() -> Any:
            return await tool.run(arguments, Call("c1", tool.name, arguments, services=self.services))

        return anyio.run(main)


@pytest.mark.spec("S0", "Core Tools")
def test_eight_core_tools() -> None:
    """The plan tools are core, in category coordination, and run without a question."""
    tools = Table().tools
    assert [tool.name for tool in tools] == NAMES
    assert {(t.spec.category, t.spec.discoverability, t.spec.access) for t in tools} == {
        ("coordination", "core", "read")
    }


def test_declarations_are_tiny() -> None:
    """All eight declarations together cost at most 420 tokens."""
    import warnings

    declared = [
        {"name": tool.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
        for tool in Table().tools
    ]
    text = [json.dumps({"type": "function", "function": one}, separators=(",", ":")) for one in declared]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the tokenizer's own, about its data files
        from bpe_openai import get_encoding

        encoding = get_encoding("o200k_base")
        assert sum(len(encoding.encode(one)) for one in text) <= 420


@pytest.mark.spec("C1", "Tool names")
def test_every_alias_reaches_its_tool() -> None:
    """Each documented spelling runs the tool it stands for, with its own words for the arguments."""
    table = Table()
    table("createPlan", title="T", steps=["one", "two"])
    assert table("updateStep", step_id="1", status="completed")["progress"] == "1/2"
    assert table("update_todo_step", id="2", status="in_progress")["step_id"] == "2"
    assert table("add_todo", text="three")["step_id"] == "3"
    assert table("get_todo", id="p1")["plan_id"] == "p1"
    assert table("list_todos")["current"] == "p1"
    assert table("mark_todo_complete")["unfinished_steps"] == ["2", "3"]
    assert table("delete_todo", id="p1") == {"cleared": "p1"}
    table("createPlan", title="U", steps=["x"])
    assert table("clear_todos") == {"cleared": "p1"}


def test_a_plan_from_draft_to_end() -> None:
    """A plan is drafted, started, worked through and completed, and each answer says what comes next."""
    table = Table()
    made = table("createPlan", title=" Ship it ", steps=["build", "test"])
    assert made == {
        "plan_id": "p1",
        "title": "Ship it",
        "status": "draft",
        "progress": "0/2",
        "steps": [
            {"id": "1", "description": "build", "status": "pending"},
            {"id": "2", "description": "test", "status": "pending"},
        ],
    }
    assert table("startPlan") == {
        "plan_id": "p1",
        "plan_status": "active",
        "progress": "0/2",
        "next": "1. build",
    }
    done = table("setStepStatus", step_id="1", status="completed", result="green")
    assert done == {
        "step_id": "1", "status": "completed", "plan_id": "p1", "plan_status": "active", "progress": "1/2",
        "next": "2. test",
    }  # fmt: skip
    assert table("addStep", description="lint", after_step_id="1")["step_id"] == "3"
    assert [step["id"] for step in table("getPlanStatus")["steps"]] == ["1", "3", "2"]
    table("setStepStatus", step_id="step 3", status="skipped")
    table("setStepStatus", step_id="2", status="completed")
    assert table("completePlan", summary="all green") == {
        "plan_id": "p1",
        "status": "completed",
        "progress": "3/3",
    }
    assert table("getPlanStatus")["summary"] == "all green"


def test_working_on_a_draft_starts_it() -> None:
    """Setting a step's status makes a draft active; a result stays when only the status changes."""
    table = Table()
    table("createPlan", title="T", steps=["a"])
    table("setStepStatus", step_id="1", status="in_progress", result="half")
    status = table("setStepStatus", step_id="1", status="completed")
    assert status["plan_status"] == "active"
    assert table("getPlanStatus")["steps"][0]["result"] == "half"


def test_errors_name_what_there_is() -> None:
    """An unknown step or plan, and an ended plan, are errors that name the ids and the tool to use."""
    table = Table()
    for name, arguments in (
        ("startPlan", {}), ("getPlanStatus", {}), ("completePlan", {}), ("clearPlan", {}),
        ("addStep", {"description": "x"}), ("setStepStatus", {"step_id": "1", "status": "pending"}),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=r"There is no plan. Use createPlan."):
            table(name, **arguments)
    table("createPlan", title="T", steps=["a", "b"])
    with pytest.raises(PlanError, match=r"no step '9'. Steps: 1, 2."):
        table("setStepStatus", step_id="9", status="completed")
    with pytest.raises(PlanError, match=r"no plan 'p7'. Plans: p1."):
        table("startPlan", plan_id="p7")
    table("completePlan", status="failed")
    with pytest.raises(PlanError, match=r"p1 is failed. startPlan opens it again"):
        table("setStepStatus", step_id="1", status="completed")
    assert table("startPlan")["plan_status"] == "active"


@pytest.mark.parametrize(
    "arguments",
    [{"title": "", "steps": ["a"]}, {"title": "T", "steps": []}, {"title": "T", "steps": ["a", " "]},
     {"title": "T", "steps": ["a"] * 201}, {"title": "T" * 2001, "steps": ["a"]}],
)  # fmt: skip
def test_bad_plans_are_refused(arguments: dict[str, Any]) -> None:
    """A plan without title or steps, or of absurd size, is refused and nothing is kept."""
    table = Table()
    with pytest.raises(ToolError):
        table("createPlan", **arguments)
    assert table("listPlans") == {"plans": [], "current": None}


def test_the_step_limit_holds_for_additions() -> None:
    """A full plan takes no further step."""
    table = Table()
    table("createPlan", title="T", steps=["a"] * 200)
    with pytest.raises(PlanError, match=r"at most 200 steps"):
        table("addStep", description="one more")


def test_several_plans() -> None:
    """A second plan becomes the current one; the first can be read, started again and deleted by its id."""
    table = Table()
    table("createPlan", title="A", steps=["a"])
    table("createPlan", title="B", steps=["b"])
    assert table("listPlans")["current"] == "p2"
    assert table("getPlanStatus", plan_id="p1")["title"] == "A"
    table("startPlan", plan_id="p1")
    assert table("listPlans")["current"] == "p1"
    table("clearPlan", plan_id="p1")
    with pytest.raises(PlanError, match=r"No plan is current. Give plan_id: p2."):
        table("getPlanStatus")


def test_the_session_keeps_the_plans() -> None:
    """With the session's plans every change goes through them, whole, and nothing is kept in the plugin."""
    plans = LoggedPlans()
    table = Table({"plans": plans})
    table("createPlan", title="T", steps=["a"])
    table("setStepStatus", step_id="1", status="completed")
    table("clearPlan")
    first, second, third = plans.log
    assert isinstance(first, Plan)
    assert isinstance(second, Plan)
    assert (first.status, second.steps[0].status, third) == ("draft", "completed", "p1")
    assert Table()("listPlans")["plans"] == []


def test_sessions_do_not_share_plans() -> None:
    """Without the service, calls of different sessions see different plans."""
    plugin = TodoPlugin(Desk())
    one, two = Call("c", "x", {}, session_id="s1"), Call("c", "x", {}, session_id="s2")
    assert plugin.plans_of(one) is not plugin.plans_of(two)
    assert plugin.plans_of(one) is plugin.plans_of(one)


@pytest.mark.spec("S3", "User Commands vs Model Tools")
def test_the_plan_command() -> None:
    """`plan` shows the current plan to the user, `plan list` all, `plan ID` one, `plan clear` deletes it."""
    plans = LoggedPlans()
    table = Table({"plans": plans})
    [(command, run)] = table.plugin.user_commands().items()
    assert isinstance(command, UserCommand)
    assert command.name == "plan"
    CURRENT.set(Call("c", "plan", {}, caller="user", services={"plans": plans}))
    assert run("") == "There is no plan."
    table("createPlan", title="Ship", steps=["build", "test"])
    table("setStepStatus", step_id="1", status="completed", result="green")
    drawn = "p1  Ship  (active, 1/2)\n  [x] 1. build\n        green\n  [ ] 2. test"
    assert run("") == run("p1") == drawn
    assert run("list") == "p1  Ship  (active, 1/2)"
    assert run("p9") == "There is no plan 'p9'. Plans: p1."
    assert run("a b c").startswith("Usage: plan")
    assert run("clear") == "Plan p1 is cleared."
    CURRENT.set(None)
