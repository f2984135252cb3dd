"""What comes before the blocks of architecture and design-philosophy about clients, sessions and providers."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any  # the documented spelling

import pytest
from tests.compat.stage import Names, Stage, called, endless, said, vertex_server
from tests.providers.server import answer

from jaato.runtime.embedding.client import JaatoClient, OutputCallback
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.embedding.providers import ModelProviderPlugin, load_provider
from jaato.runtime.embedding.types import FinishReason, FunctionCall, ProviderConfig
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.cancel import CancelToken


def work(stage: Stage) -> Iterator[Names]:
    """Three chunks of work; in the third somebody asks to stop."""
    names: Names = {}
    done: list[str] = []

    def do_work_chunk() -> None:
        done.append("chunk")
        if len(done) == 3:
            names["token"].cancel()

    names |= {"do_work_chunk": do_work_chunk, "cleanup": lambda: done.append("clean")}
    yield names
    assert done == ["chunk", "chunk", "chunk", "clean"]
    assert names["cancelled"] is True


def connect() -> ModelProviderPlugin:
    """A connected Gemini provider with a conversation begun."""
    provider = load_provider("google_genai", ProviderConfig(project="my-project", location="us-central1"))
    provider.connect("gemini-2.5-flash")
    provider.create_session()
    return provider


def connected_provider(stage: Stage) -> Iterator[Names]:
    """A provider whose model tells a story in two pieces."""
    with vertex_server(stage, said("Once upon ", "a time.")):
        provider = connect()
        names: Names = {"provider": provider, "token": CancelToken()}
        yield names
        assert stage.out() == "Once upon a time."
        assert names["response"].text == "Once upon a time."
        provider.shutdown()


class Recording(JaatoClient):
    """A client that notes what its messages were answered with."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: list[str] = []

    def send_message(self, text: str, on_output: OutputCallback | None = None) -> str:
        self.responses.append(super().send_message(text, on_output))
        return self.responses[-1]


def slow_model(stage: Stage) -> Iterator[Names]:
    """A model that begins a story and never ends it; the response ends where it was stopped, and says so."""
    registry = PluginRegistry(workspace=stage.path)
    with vertex_server(stage, endless("Once upon a time")) as server:
        place = {"project": "my-project", "location": "us-central1", "model": "gemini-2.5-flash"}
        names: Names = {"JaatoClient": Recording, "registry": registry, **place}
        yield names
        client: Recording = names["client"]
        assert client.responses == ["Once upon a time [Generation cancelled]"]
        assert client.get_history()[-1].text == "Once upon a time"
        assert client.is_processing is False
        assert len(server.requests) == 2
        client.close()
    registry.shutdown()


def retried_provider(stage: Stage) -> Iterator[Names]:
    """A server that is overloaded once; when the answer is there, somebody cancels the token the sleep looks at."""
    names: Names = {"CancelToken": CancelToken, "message": "Hello!"}

    def stop_then() -> None:
        while "stats" not in names:
            time.sleep(0.005)
        names["token"].cancel()

    busy = answer({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}, 503, retry_after="0")
    with vertex_server(stage, busy, said("Hi.")):
        names["provider"] = connect()
        stopper = threading.Thread(target=stop_then, daemon=True)
        stopper.start()
        yield names
        stopper.join(60)
        assert names["response"].text == "Hi."
        assert names["stats"].attempts == 2
        names["provider"].shutdown()


def parent_and_child(stage: Stage) -> Iterator[Names]:
    """Whoever is asked looks at its own token and at its parent's."""
    names: Names = {}
    yield names
    cancelled = CancelToken()
    cancelled.cancel()
    for own, parent, expected in [
        (CancelToken(), CancelToken(), False),
        (cancelled, None, True),
        (CancelToken(), cancelled, True),
        (None, None, False),
    ]:
        asked = SimpleNamespace(_cancel_token=own, _parent_cancel_token=parent)
        assert names["_is_cancelled"](asked) is expected
    parent = CancelToken()
    child = CancelToken(parent)
    parent.cancel()
    assert child.is_cancelled


def registry_name(stage: Stage) -> Iterator[Names]:
    """The name is imported; afterwards the plugin `cli` offers its tool."""
    names: Names = {"PluginRegistry": PluginRegistry}
    yield names
    registry = names["registry"]
    assert [schema.name for schema in registry.get_exposed_tool_schemas()] == ["run"]
    registry.shutdown()


def vertex(stage: Stage) -> Iterator[Names]:
    """A server in the place of Vertex AI."""
    with vertex_server(stage, said("Hello to ", "you.")) as server:
        names: Names = {}
        yield names
        assert stage.out() == "Hello to you.\n[]\n"
        token, asked = server.requests
        assert token.path == "/token"
        place = "/v1beta1/projects/my-project/locations/us-central1/publishers/google/models/gemini-2.5-flash"
        assert asked.path.startswith(f"{place}:streamGenerateContent")
        assert asked.headers["authorization"] == "Bearer ya29.test"
        body = asked.json()
        assert body["systemInstruction"]["parts"] == [{"text": "You are a helpful assistant."}]
        assert body["tools"][0]["functionDeclarations"][0]["name"] == "greet"
        names["provider"].shutdown()


def typical_client(stage: Stage) -> Iterator[Names]:
    """The first message makes the model look at the directory; the client runs it and gives back the words."""
    (stage.path / "notes.txt").write_text("hello\n")
    replies = [called("run", command="ls"), said("There is ", "notes.txt."), said("No log yet.")]
    with vertex_server(stage, *replies) as server:
        names: Names = {}
        yield names
        assert (names["response1"], names["response2"]) == ("There is notes.txt.", "No log yet.")
        assert names["skipped"] == []
        printed = stage.out()
        assert "[model]: There is \n[model]: notes.txt.\n" in printed
        result = server.requests[2].json()["contents"][-1]["parts"][0]["functionResponse"]
        assert result["name"] == "run"
        assert "notes.txt" in str(result["response"])
        assert names["ledger"].totals()["model_calls"] == 3
        assert printed.splitlines()[-1] == f"Context: {names['usage']['percent_used']:.1f}% used"
        names["client"].close()
        names["registry"].shutdown()


def session_inside(stage: Stage) -> Iterator[Names]:
    """Hooks hear of the start and the end of each call."""
    heard: list[tuple[str, dict[str, Any]]] = []
    hooks = SimpleNamespace(
        on_tool_call_start=lambda **told: heard.append(("start", told)),
        on_tool_call_end=lambda **told: heard.append(("end", told)),
    )
    executor = ToolExecutor()
    executor.register("greet", lambda args: {"message": f"Hello, {args['name']}!"})
    names: Names = {
        "function_calls": [FunctionCall(id="call_1", name="greet", args={"name": "Alice"})],
        "executor": executor,
        "elapsed": 0.25,
        "self": SimpleNamespace(_ui_hooks=hooks, _agent_id="main"),
    }
    yield names
    assert names["result"] == (True, {"message": "Hello, Alice!"})
    assert heard == [
        ("start", {"agent_id": "main", "tool_name": "greet", "tool_args": {"name": "Alice"}}),
        ("end", {"agent_id": "main", "tool_name": "greet", "success": True, "duration_seconds": 0.25}),
    ]


def enum_name(stage: Stage) -> Iterator[Names]:
    """The outlined classes are ours in name and value."""
    names: Names = {"Enum": enum.Enum}
    yield names
    outlined = names["FinishReason"]
    assert FinishReason.CANCELLED == outlined.CANCELLED.value == "cancelled"
    assert issubclass(FinishReason, enum.Enum)


def after_kinds(names: Names) -> None:
    """The last kind is one the registry knows, and so are the others."""
    assert names["PLUGIN_KIND"] == "model_provider"
    for kind in ("tool", "gc", "session", "model_provider"):
        assert isinstance(PluginRegistry().discover(plugin_kind=kind), list)
    with pytest.raises(Exception, match="No plugin kind"):
        PluginRegistry().discover(plugin_kind="other")


PRELUDES = {
    prelude.__name__: prelude
    for prelude in (
        work, connected_provider, slow_model, retried_provider, parent_and_child, registry_name, vertex,
        typical_client, session_inside, enum_name,
    )
}  # fmt: skip
AFTER = {"architecture_19": after_kinds}
RAISES = {"architecture_13": "CancelledException"}
"""Blocks that end with an exception, as they say themselves."""
