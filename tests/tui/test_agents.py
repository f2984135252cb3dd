"""Several agents in the full-screen client: tabs, spinners, plans, retries; and what the status line says of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from rich.cells import cell_len
from tests.tui.studio import call, say, studio

from jaato.protocol.events import ToolCallEnd
from jaato.protocol.events.state import AgentView, State
from jaato.protocol.messages import ToolResult
from jaato.protocol.specs import Plan, PlanStep
from jaato.tui.agent_tabs import AgentTabs
from jaato.tui.transcript.blocks import SPINNER, CallBlock
from jaato.tui.transcript.conversation import Conversation

pytestmark = pytest.mark.anyio


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.8")
@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.10")
async def test_agents_are_tabs_and_every_spinner_is_alive(work: Path) -> None:
    """F2 shows the next agent; while another one is shown, the spinners of all that work go on."""
    steps = [
        call("get_tool_schemas", names=["delegate"]),
        call("delegate", task="count", background=True),
        call("run", command="until [ -e go ]; do sleep 0.05; done"),
        say("Over."),
    ]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        tabs = one.app.view.query_one(AgentTabs)
        await one.wait(lambda: len(one.app.link.session.state.agents) > 1 and tabs.display)
        before = tabs.render().plain
        await one.wait(lambda: tabs.render().plain != before)
        root = one.app.view.agent_id
        await one.press("f2")
        assert one.app.view.agent_id != root
        await one.see("count")
        await one.press("f2")
        assert one.app.view.agent_id == root
        (work / "go").touch()
        await one.see("Over.")


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.9")
async def test_a_call_that_runs_has_a_spinner_until_it_ends(work: Path) -> None:
    """It turns while the call runs, above its newest output; afterwards the call has its result."""
    steps = [call("run", command="echo begun; until [ -e go ]; do sleep 0.05; done"), say("Over.")]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("│ begun")

        def mark() -> str:
            line = next(line for line in one.screen.splitlines() if "run echo begun" in line)
            return line.split()[2]

        first = mark()
        assert first in SPINNER
        await one.wait(lambda: mark() != first)
        (work / "go").touch()
        await one.see("Over.", "✓ run echo begun")
        assert "│ begun" not in one.screen


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.11")
@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.12")
async def test_plans_and_retries_of_subagents(work: Path) -> None:
    """A subagent's plan is in the list of plans, by its name; its retries are in its own conversation."""
    steps = [
        call("get_tool_schemas", names=["delegate", "createPlan"]),
        call("delegate", task="count"),
        {"error": "rate_limited", "retry_after_s": 0.01},
        call("createPlan", title="Count them", steps=["one step"]),
        say("Counted."),
        say("Over."),
    ]
    async with studio(work, steps=steps) as one:
        await one.send("go")
        await one.see("Over.")
        assert "The script says" not in one.screen
        await one.press("f4")
        await one.see("Plans", "plan 0/1: Count them", "[ ] one step")
        await one.press("escape", "f2")
        await one.see("retry 2 of", "The script says: rate_limited", "Counted.")


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.14")
async def test_the_status_line_has_provider_and_model(work: Path) -> None:
    """From the snapshot, as soon as the session is shown."""
    async with studio(work, steps=[say("x")]) as one:
        assert "scripted script.json" in one.status


@pytest.mark.spec("S1", "Executor Metadata", "S1.metadata.3")
async def test_a_call_without_output_leaves_the_conversation() -> None:
    """A result with `show_output` false is not shown; one that failed is."""
    state = State(session_id="s", root_agent_id="a")
    conversation = Conversation(state, "")
    fields: dict[str, Any] = {"session_id": "s", "agent_id": "a", "tool": "quiet"}
    for seq, (ok, shown) in enumerate([(True, True), (True, False), (False, False)], 1):
        result = ToolResult(call_id=f"c{seq}", name="quiet", ok=ok)
        end = ToolCallEnd(
            seq=seq, call_id=f"c{seq}", result=result, duration_s=1.0, show_output=shown, **fields
        )
        conversation.take(end)
    found = [block.call_id for block in conversation.root.blocks if isinstance(block, CallBlock)]
    assert found == ["c1", "c3"]


async def test_the_selected_tab_is_visible_on_a_narrow_terminal(work: Path) -> None:
    """Tabs before it give way; a click counts cells, of which some characters have two."""
    async with studio(work, steps=[say("x")], size=(44, 24)) as one:
        view, tabs = one.app.view, one.app.view.query_one(AgentTabs)
        for number in range(6):
            agent = AgentView(f"a{number}", f"漢字漢字漢字{number}")
            one.app.link.session.state.agents[agent.id] = agent
        view.draw()
        await one.see("main")
        view.show_agent("a5")
        await one.see("漢字5")
        assert "main" not in one.screen
        view.show_agent("a4")
        await one.wait(lambda: "漢字4" in tabs.render().plain)
        await one.pilot.click(AgentTabs, offset=(14, 0))
        await one.wait(lambda: view.agent_id == "a3")


async def test_agents_without_room_for_a_tab_are_counted(work: Path) -> None:
    """Tabs are whole: of many agents those that fit are shown, how many are not, and the key that goes through all."""
    async with studio(work, steps=[say("x")]) as one:
        agents = one.app.link.session.state.agents
        root = agents[one.app.view.agent_id]
        for number in range(50):
            agents[f"a{number}"] = structs.replace(root, id=f"a{number}", name=f"agent-{number}")
        one.app.schedule_frame()
        await one.see("agent-0", " F2 next")
        tabs = one.app.view.query_one(AgentTabs)
        for _ in range(51):
            line = tabs.render().plain
            shown = re.findall(r"main|agent-\d+(?= )", line)
            assert line.endswith(f"+{51 - len(shown)} F2 next")
            assert cell_len(line) <= 80
            selected = one.app.view.agent_id
            assert ("main" if selected == root.id else agents[selected].name) in shown
            await one.press("f2")
        for number in range(50):
            del agents[f"a{number}"]


async def test_the_current_step_of_a_long_plan_is_visible(work: Path) -> None:
    """Also after the window was resized, and when a later step begins."""

    def make_plan(current: int) -> Plan:
        statuses = ["completed"] * current + ["in_progress"] + ["pending"] * (59 - current)
        steps = [
            PlanStep(str(at), f"step number {at}", cast("Any", status)) for at, status in enumerate(statuses)
        ]
        return Plan("p", "A long plan", steps, "active")

    async with studio(work, steps=[say("x")], size=(120, 30)) as one:
        root = one.app.link.session.state.agents[one.app.view.agent_id]
        root.plan_id = "p"
        for current in (40, 52, 3):
            root.plans = {"p": make_plan(current)}
            one.app.schedule_frame()
            await one.see(f"▸ step number {current}", f"✓ step number {current - 1}")
        root.plans = {"p": make_plan(40)}
        await one.pilot.resize_terminal(120, 20)
        await one.see("▸ step number 40")
