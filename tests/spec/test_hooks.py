"""The nine UI hooks: their arguments and their order."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit import calls, say
from tests.spec.documented import Documented, schema

from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.embedding.hooks import AgentUIHooks
from jaato.runtime.plugins.registry import PluginRegistry

NINE = {
    "on_agent_created": [
        "agent_id",
        "agent_name",
        "agent_type",
        "profile_name",
        "parent_agent_id",
        "created_at",
    ],
    "on_agent_status_changed": ["agent_id", "status", "error"],
    "on_agent_output": ["agent_id", "source", "text", "mode"],
    "on_tool_call_start": ["agent_id", "tool_name", "tool_args"],
    "on_tool_call_end": ["agent_id", "tool_name", "success", "duration_seconds"],
    "on_agent_turn_completed": ["agent_id", "turn_data"],
    "on_agent_context_updated": ["agent_id", "usage"],
    "on_agent_history_updated": ["agent_id", "history"],
    "on_agent_completed": ["agent_id", "success"],
}


class Notes:
    """Hooks that note what they are told, bound to the documented parameter names."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        for name in NINE:
            setattr(self, name, self._noting(name))

    def _noting(self, name: str) -> Any:
        signature = inspect.signature(getattr(AgentUIHooks, name))

        def note(*arguments: Any, **keywords: Any) -> None:
            bound = signature.bind(None, *arguments, **keywords)
            self.heard.append((name, {k: v for k, v in bound.arguments.items() if k != "self"}))

        return note

    def of(self, name: str) -> list[dict[str, Any]]:
        """What one hook heard."""
        return [arguments for heard, arguments in self.heard if heard == name]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[JaatoClient]:
    """A client whose model makes two calls, one of which fails, and then speaks."""
    plugin = Documented("mine", schema("good", discoverability="core"), schema("bad", discoverability="core"))
    plugin.executors["bad"] = lambda args: args["nothing"]
    plugin.get_auto_approved_tools = lambda: ["good", "bad"]  # type: ignore[method-assign]  # both run unasked
    registry = PluginRegistry(workspace=tmp_path)
    registry.register_plugin(plugin, expose=True)
    script = [
        calls(("good", {"text": "1"}), ("bad", {"text": "2"})),
        say("All done.", chunks=2),
        say("Again."),
    ]
    made = JaatoClient(state_dir=tmp_path / "state")
    made.connect(model="script", provider=ScriptedProvider(script), workspace=tmp_path)
    made.configure_tools(registry)
    yield made
    made.close()
    registry.shutdown()


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.6")
def test_the_protocol_has_the_nine_hooks_with_their_parameters() -> None:
    """AgentUIHooks as the contract names it."""
    for name, parameters in NINE.items():
        assert list(inspect.signature(getattr(AgentUIHooks, name)).parameters)[1:] == parameters
    assert {name for name in vars(AgentUIHooks) if name.startswith("on_")} == set(NINE)


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.1")
@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.6")
def test_the_hooks_come_in_their_order(client: JaatoClient) -> None:
    """Created, active, calls, output, then turn, context and history; done at the end; completed on close."""
    notes = Notes()
    client.set_ui_hooks(notes)
    assert client.send_message("go") == "All done."
    names = [name for name, _ in notes.heard]
    assert names[0] == "on_agent_created"
    assert notes.heard[1] == ("on_agent_status_changed", {"agent_id": "main", "status": "active"})
    assert max(i for i, name in enumerate(names) if name == "on_tool_call_end") < names.index(
        "on_agent_output"
    )
    turn = names.index("on_agent_turn_completed")
    assert names.index("on_agent_output") < turn
    assert names[turn : turn + 3] == [
        "on_agent_turn_completed",
        "on_agent_context_updated",
        "on_agent_history_updated",
    ]
    assert notes.heard[-1] == ("on_agent_status_changed", {"agent_id": "main", "status": "done"})
    assert "on_agent_completed" not in names
    client.close()
    assert notes.heard[-1] == ("on_agent_completed", {"agent_id": "main", "success": True})
    assert {name for name, _ in notes.heard} == set(NINE)


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.2")
def test_tool_hooks_say_what_ran_and_how_it_went(client: JaatoClient) -> None:
    """Each call has a start with its arguments and an end with success and seconds, start before end."""
    notes = Notes()
    client.set_ui_hooks(notes)
    client.send_message("go")
    starts, ends = notes.of("on_tool_call_start"), notes.of("on_tool_call_end")
    assert {(s["agent_id"], s["tool_name"], s["tool_args"]["text"]) for s in starts} == {
        ("main", "good", "1"),
        ("main", "bad", "2"),
    }
    assert {end["tool_name"]: end["success"] for end in ends} == {"good": True, "bad": False}
    assert all(isinstance(end["duration_seconds"], float) and end["duration_seconds"] >= 0 for end in ends)
    for tool in ("good", "bad"):
        order = [n for n, a in notes.heard if a.get("tool_name") == tool]
        assert order == ["on_tool_call_start", "on_tool_call_end"]


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.3")
def test_output_turn_context_and_history_are_told(client: JaatoClient) -> None:
    """Output is the model's, with write and append; turn, usage and history are those of the session."""
    notes = Notes()
    client.set_ui_hooks(notes)
    client.send_message("go")
    output = notes.of("on_agent_output")
    assert [(o["agent_id"], o["source"], o["mode"]) for o in output] == [
        ("main", "model", "write"),
        ("main", "model", "append"),
    ]
    assert "".join(o["text"] for o in output) == "All done."
    (turn,) = notes.of("on_agent_turn_completed")
    data = turn["turn_data"]
    assert (data["prompt_tokens"], data["output_tokens"], data["total_tokens"]) == (200, 20, 220)
    assert data["function_calls"] == 2
    assert notes.of("on_agent_context_updated")[-1]["usage"] == client.get_context_usage()
    assert notes.of("on_agent_history_updated")[-1]["history"] == client.get_history()


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.4")
def test_hooks_are_passed_to_the_session_under_an_agent_id(client: JaatoClient) -> None:
    """The client's hooks are the session's, under "main"; a session's own may name another agent; None ends them."""
    own, main = Notes(), Notes()
    client.set_ui_hooks(main)
    session = client.get_session()
    assert main.of("on_agent_created")[0]["agent_id"] == "main"
    session.set_ui_hooks(own, agent_id="helper")
    client.send_message("go")
    assert {arguments["agent_id"] for _, arguments in own.heard} == {"helper"}
    assert main.of("on_agent_turn_completed") == []
    session.set_ui_hooks(None)
    before = len(own.heard)
    client.send_message("again")
    assert len(own.heard) == before


def test_hooks_that_fail_or_are_missing_harm_nobody(client: JaatoClient) -> None:
    """An object with some hooks only, one of which raises, sees what it has; the message is answered."""

    class Few:
        heard: list[str] = []

        def on_agent_output(self, agent_id: str, source: str, text: str, mode: str) -> None:
            self.heard.append(text)
            raise RuntimeError("a view's fault")

        def on_agent_completed(self, agent_id: str, success: bool) -> None:
            raise RuntimeError("again")

    client.set_ui_hooks(Few())
    assert client.send_message("go") == "All done."
    assert "".join(Few.heard) == "All done."
    client.close()
