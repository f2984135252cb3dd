"""Subagents behind the documented faces: runtime, hooks, retry callback, plan reporter, profiles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit import FAST, call, say
from tests.spec.test_hooks import Notes
from tests.subagent.cast import Cast

from jaato.agent.session import Session
from jaato.errors import RateLimited, ToolError
from jaato.plugins.subagent.plugin import SubagentPlugin
from jaato.protocol.events import AgentCreated
from jaato.protocol.specs import Plan
from jaato.providers.scripted import Step
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry

SCRIPTS: dict[str, Any] = {
    "main": [
        call("get_tool_schemas", names=["delegate"]),
        call("delegate", task="x", name="one"),
        say("done"),
    ],
    "one": [call("createPlan", title="mine", steps=["a", "b"]), say("planned", chunks=2), say("more")],
    "helper": [say("helped"), say("again")],
}


class Desk:
    """A client whose agents play their scripts, and the plugin that was made by hand."""

    def __init__(self, path: Path, scripts: dict[str, Any]) -> None:
        (path / "work").mkdir(exist_ok=True)
        self.plugin = SubagentPlugin()
        self.registry = PluginRegistry(workspace=path / "work")
        self.registry.expose_all()
        self.registry.register_plugin(self.plugin, expose=True)
        self.client = JaatoClient(state_dir=path / "state")
        self.client.connect(model="script", provider=Cast(scripts), workspace=path / "work")
        self.client.configure_tools(self.registry)

    @property
    def live(self) -> Session:
        """The main agent's session."""
        return self.client.get_session().live


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A client with subagents."""
    made = Desk(tmp_path, SCRIPTS)
    yield made
    made.client.close()
    made.registry.shutdown()


@pytest.mark.spec("S3", "Runtime vs Session Separation", "S3.separation.4")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.10")
def test_a_subagent_comes_from_create_session(desk: Desk) -> None:
    """With a parent it is an agent in the parent's log, with a history of its own, over the same provider, plugins,
    permissions and ledger; delegate makes the same kind."""
    runtime, main = desk.client.get_runtime(), desk.client.get_session()
    child = runtime.create_session(parent=main, name="helper", system_instructions="Be kind.")
    assert child.send_message("help") == "helped"
    assert main.get_history() == []
    assert [message.text for message in child.get_history()] == ["help", "helped"]
    live, below = main.live, child.live
    assert below.state.session_id == live.state.session_id
    assert below.model.provider is live.model.provider
    assert below.catalog is live.catalog
    assert below.model.ledger is live.model.ledger is runtime.ledger
    created = [e for e in live.journal.store.read(live.state.session_id) if isinstance(e, AgentCreated)]
    assert [(e.name, e.parent_agent_id) for e in created] == [("main", None), ("helper", live.state.agent_id)]
    assert created[1].system_prompt.endswith("Be kind.")
    assert desk.client.send_message("go") == "done"
    assert {type(one.session) for one in live.supervisor.subagents.values()} == {type(below)}
    child.close()
    assert [one.name for one in live.supervisor.subagents.values()] == ["one"]


def test_the_facade_is_bounded_too(desk: Desk) -> None:
    """The depth holds for sessions that a program makes, and unknown plugins are refused."""
    runtime, session = desk.client.get_runtime(), desk.client.get_session()
    for _depth in range(3):
        session = runtime.create_session(parent=session)
    with pytest.raises(ToolError, match="nest 3 deep"):
        runtime.create_session(parent=session)
    with pytest.raises(ToolError, match="no plugin 'nothing'"):
        runtime.create_session(tools=["nothing"], parent=desk.client.get_session())


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.7")
@pytest.mark.parametrize("where", ["client", "plugin", "both"])
def test_hooks_reach_subagents(desk: Desk, where: str) -> None:
    """Those of the client and those of the plugin hear of every agent under its own id, and of nothing twice."""
    notes = Notes()
    if where in ("client", "both"):
        desk.client.set_ui_hooks(notes)
    if where in ("plugin", "both"):
        desk.plugin.set_ui_hooks(notes)
    assert desk.client.send_message("go") == "done"
    (child,) = desk.live.supervisor.subagents.values()
    created = [heard for heard in notes.of("on_agent_created") if heard["agent_type"] == "subagent"]
    assert len(created) == 1
    assert (created[0]["agent_id"], created[0]["agent_name"], created[0]["parent_agent_id"]) == (
        child.id,
        "one",
        "main",
    )
    said = [h["text"] for h in notes.of("on_agent_output") if h["agent_id"] == child.id]
    assert "".join(said) == "planned"
    called = [h["tool_name"] for h in notes.of("on_tool_call_start") if h["agent_id"] == child.id]
    assert called == ["createPlan"]
    history = [h["history"] for h in notes.of("on_agent_history_updated") if h["agent_id"] == child.id]
    assert history[-1][0].text == "[parent] x"
    assert notes.of("on_agent_completed") == [{"agent_id": child.id, "success": True}]
    turns = [h["agent_id"] for h in notes.of("on_agent_turn_completed")]
    assert turns == ([child.id] if where == "plugin" else [child.id, "main"])


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.7")
def test_the_plan_reporter_hears_of_the_plans_of_subagents(desk: Desk) -> None:
    """Each change, with the agent's id; the main agent's own plans are not its concern."""
    heard: list[tuple[str, Plan]] = []
    desk.plugin.set_plan_reporter(lambda agent_id, plan: heard.append((agent_id, plan)))
    desk.client.send_message("go")
    (child,) = desk.live.supervisor.subagents.values()
    assert [(agent_id, plan.title) for agent_id, plan in heard] == [(child.id, "mine")]


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.7")
def test_retries_of_subagents_go_to_both_callbacks(tmp_path: Path) -> None:
    """The client's and the plugin's, in the documented arguments."""
    tries: list[int] = []

    def busy(_request: Any) -> Step:
        tries.append(1)
        if len(tries) == 1:
            raise RateLimited("slow down", provider="scripted")
        return say("well")

    desk = Desk(tmp_path, {**SCRIPTS, "one": [busy]})
    heard: dict[str, list[tuple[str, int, int, float]]] = {"client": [], "plugin": []}
    try:
        desk.live.model.retry = FAST
        desk.client.set_retry_callback(lambda *told: heard["client"].append(told))
        desk.plugin.set_retry_callback(lambda *told: heard["plugin"].append(told))
        assert desk.client.send_message("go") == "done"
    finally:
        desk.client.close()
        desk.registry.shutdown()
    assert heard["client"] == heard["plugin"]
    assert [(told[0], told[1]) for told in heard["client"]] == [("slow down", 2)]


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.6")
def test_profiles_are_files_of_the_workspace(tmp_path: Path) -> None:
    """`.jaato/profiles/*.json` and `*.yaml` are found, listed by the plugin, by the tool and by the command."""
    profiles = tmp_path / "work" / ".jaato" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "reviewer.json").write_text(json.dumps({"description": "reviews", "plugins": ["file_edit"]}))
    (profiles / "tester.yaml").write_text("description: tests\nread_only: true\n")
    desk = Desk(tmp_path, SCRIPTS)
    try:
        assert list(desk.plugin.discover_profiles()) == ["reviewer", "tester"]
        listed = desk.plugin.list_subagent_profiles()
        assert [row["description"] for row in listed["profiles"]] == ["reviews", "tests"]
        ((command, run),) = desk.plugin.user_commands().items()
        assert command.name == "profiles"
        assert run("").splitlines()[0].startswith("reviewer  (workspace)  reviews")
    finally:
        desk.client.close()
        desk.registry.shutdown()
