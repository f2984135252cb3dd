"""`JaatoClient`, `JaatoRuntime`, `JaatoSession`, `Agent`: what the documents promise of them, over real sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.kit import call, calls, say
from tests.spec.documented import Documented, Enriching, schema

from jaato.abc.provider import Chunk, ModelRequest
from jaato.agent.retry import RetryPolicy
from jaato.errors import ConfigError, LimitReached
from jaato.plugins.permission import PermissionPlugin
from jaato.protocol.messages import Usage
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.embed import JaatoClient, JaatoRuntime
from jaato.runtime.registry import PluginRegistry
from jaato.tools.call import Call
from jaato.tools.ledger import TokenLedger

Connect = Callable[..., JaatoClient]


class Paced(ScriptedProvider):
    """A scripted model that pauses between chunks until the test lets it go on."""

    def __init__(self, script: Sequence[Answer]) -> None:
        super().__init__(script, keep_requests=True)
        self.spoke = threading.Event()

    async def stream(self, request: ModelRequest) -> Any:
        said: list[Chunk] = []
        async for chunk in super().stream(request):
            yield chunk
            said.append(chunk)
            if len(said) == 2:
                self.spoke.set()
                await anyio.sleep(30)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Makes clients over a scripted model; they are closed in the end."""
    made: list[JaatoClient] = []
    registries: list[PluginRegistry] = []
    (tmp_path / "work").mkdir()

    def client(
        script: Sequence[Answer] | ScriptedProvider,
        *plugins: Any,
        ledger: TokenLedger | None = None,
        permission: Any = None,
    ) -> JaatoClient:
        provider = (
            script if isinstance(script, ScriptedProvider) else ScriptedProvider(script, keep_requests=True)
        )
        registry = PluginRegistry(workspace=tmp_path / "work")
        registries.append(registry)
        for plugin in plugins:
            registry.register_plugin(plugin, expose=True)
        found = JaatoClient(state_dir=tmp_path / "state")
        made.append(found)
        found.connect(model="script", provider=provider, workspace=tmp_path / "work")
        found.configure_tools(registry, permission, ledger)
        return found

    yield client
    for found in made:
        found.close()
    for registry in registries:
        registry.shutdown()


def provider_of(client: JaatoClient) -> ScriptedProvider:
    """The scripted model behind a client."""
    provider = client.get_session().live.provider
    assert isinstance(provider, ScriptedProvider)
    return provider


def approved(name: str, run: Callable[[dict[str, Any]], Any], tool: str = "do") -> Documented:
    """A plugin with one core tool that runs without asking."""
    plugin = Documented(name, schema(tool, discoverability="core"))
    plugin.executors = {tool: run}
    plugin.get_auto_approved_tools = lambda: [tool]  # type: ignore[method-assign]  # this one is approved
    return plugin


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.3")
@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.2")
@pytest.mark.spec("S3", "Message Flow Sequence", "S3.flow.2")
def test_send_message_runs_the_calls_and_returns_the_text(connect: Connect) -> None:
    """The response is text; the calls ran through the registry; tokens are in the ledger given."""
    ledger = TokenLedger()
    plugin = approved("mine", lambda args: {"said": args["text"]})
    client = connect([call("do", text="hi"), say("Here you are.")], plugin, ledger=ledger)
    assert client.send_message("List files") == "Here you are."
    assert ledger.totals()["prompt_tokens"] == 200
    assert ledger.totals()["output_tokens"] == 20
    assert ledger.totals()["model_calls"] == 2
    assert [entry["stage"] for entry in ledger.entries].count("response") == 2


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.4")
@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.3")
def test_the_history_goes_on_until_it_is_reset(connect: Connect) -> None:
    """Each message sees what was said before; after reset_session the conversation is new and the old one stored."""
    client = connect([say("one"), say("two"), say("three")])
    client.send_message("first")
    client.send_message("second")
    assert [(m.role, m.text) for m in client.get_history()] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]
    assert [m.text for m in provider_of(client).requests[1].messages][:3] == ["first", "one", "second"]
    before = client.get_session().live.state.session_id
    client.reset_session()
    assert client.get_history() == []
    assert client.send_message("third") == "three"
    assert len(client.get_history()) == 2
    store = client.get_session().live.journal.store
    assert store.find(before) == before


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.1")
def test_connect_takes_a_project_or_a_provider(tmp_path: Path) -> None:
    """With project (or project_id) and location it is Gemini on Vertex; without connect nothing can be sent."""
    for words in ({"project": "p1"}, {"project_id": "p1"}):
        client = JaatoClient()
        client.connect(location="us-central1", model="gemini-2.5-flash", **words)
        blueprint = client._connected()
        assert blueprint.provider == "google_genai"
        assert blueprint.model == "gemini-2.5-flash"
        assert blueprint.environ is not None
        assert blueprint.environ["GOOGLE_CLOUD_PROJECT"] == "p1"
        assert blueprint.environ["GOOGLE_CLOUD_LOCATION"] == "us-central1"
    client = JaatoClient()
    client.connect("p2", "europe-west1", "gemini-2.5-pro")
    assert (client._connected().environ or {})["GOOGLE_CLOUD_PROJECT"] == "p2"
    with pytest.raises(ConfigError, match="Call connect"):
        JaatoClient().send_message("hi")


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.5")
@pytest.mark.spec("S3", "Runtime vs Session Separation", "S3.separation.1")
@pytest.mark.spec("S3", "Runtime vs Session Separation", "S3.separation.2")
@pytest.mark.spec("S4", "8. Subagents Share Runtime, Not State", "S4.share.1")
def test_sessions_of_one_runtime_share_everything_but_their_state(connect: Connect, tmp_path: Path) -> None:
    """Same registry, permissions and ledger; own history, model, turns, stop and queue."""
    ledger = TokenLedger()
    permission = PermissionPlugin(
        workspace=tmp_path / "work", state_dir=tmp_path / "state", channel_type="queue"
    )
    client = connect([say("one"), say("two"), say("three")], ledger=ledger, permission=permission)
    runtime = client.get_runtime()
    assert client.get_runtime() is runtime
    main, other = client.get_session(), runtime.create_session(model="another")
    try:
        assert client.get_session() is main
        main.send_message("to main")
        other.send_message("to other")
        assert main.get_history()[0].text == "to main"
        assert other.get_history()[0].text == "to other"
        assert (main.live.state.model, other.live.state.model) == ("script", "another")
        assert main.live.state.turns == other.live.state.turns == 1
        assert main.live.catalog is other.live.catalog is runtime.registry.catalog
        assert main.live.ledger is other.live.ledger is ledger is runtime.ledger
        assert ledger.totals()["model_calls"] == 2
        assert main.live.inbox is not other.live.inbox
        assert main.live.gate is not other.live.gate
        assert main.live.state.session_id != other.live.state.session_id
    finally:
        other.close()


def test_a_runtime_without_a_registry_makes_one_and_ends_it(tmp_path: Path) -> None:
    """All sessions use the same plugins; closing the runtime shuts them down, closing a session does not."""
    (tmp_path / "work").mkdir()
    runtime = JaatoRuntime(
        Blueprint(
            model="script",
            provider=ScriptedProvider([say("one"), say("two")]),
            workspace=tmp_path / "work",
            state_dir=tmp_path / "state",
        )
    )
    first, second = runtime.create_session(), runtime.create_session()
    assert first.live.catalog is second.live.catalog
    assert first.live.ledger is second.live.ledger
    registry = runtime.registry
    first.close()
    assert registry.list_exposed()
    assert second.send_message("x") == "one"
    second.close()
    runtime.close()
    assert registry.list_exposed() == []


@pytest.mark.spec("S3", "Runtime vs Session Separation", "S3.separation.3")
def test_a_session_may_use_a_part_of_the_tools(connect: Connect) -> None:
    """`tools` names plugins: the others' tools are neither declared nor listed nor callable there."""
    yes, no = approved("yes", lambda _a: 1, "may"), approved("no", lambda _a: 2, "mustnot")
    client = connect([call("mustnot", text="x"), call("may", text="x"), say("done")], yes, no)
    session = client.get_runtime().create_session(tools=["yes"], system_instructions="Be brief.")
    try:
        assert session.send_message("go") == "done"
        request = provider_of(client).requests[0]
        assert [spec.name for spec in request.tools] == ["may"]
        assert request.system == "Be brief."
        results = [part for m in session.get_history() if m.role == "tool" for part in m.parts]
        assert [result.ok for result in results] == [False, True]  # type: ignore[union-attr]  # tool results
        assert results[0].error.code == "tool_unknown"  # type: ignore[union-attr]  # the first one failed
    finally:
        session.close()
    with pytest.raises(ConfigError, match="'maybe' is not exposed"):
        client.get_runtime().create_session(tools=["maybe"])


def test_plugins_of_another_directory_are_refused(tmp_path: Path) -> None:
    """Permissions are judged where the session works, so its plugins must work there too."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    client = JaatoClient(state_dir=tmp_path / "state")
    client.connect(model="script", provider=ScriptedProvider([say("x")]), workspace=tmp_path / "a")
    client.configure_tools(PluginRegistry(workspace=tmp_path / "b"))
    with pytest.raises(ConfigError, match="PluginRegistry"):
        client.send_message("x")


@pytest.mark.spec("S4", "7. Plugin Auto-Wiring", "S4.wiring.2")
def test_plugins_are_told_of_the_session_when_it_is_configured(connect: Connect) -> None:
    """set_session is called with the session before the first message, also for a plugin exposed later."""
    plugin, late = Documented("mine"), Documented("late")
    client = connect([say("hi")], plugin)
    assert "session" not in plugin.told
    session = client.get_session()
    assert plugin.told["session"] is session
    client.get_runtime().registry.register_plugin(late, expose=True)
    assert late.told["session"] is session


@pytest.mark.spec("S3", "Prompt Enrichment Pipeline", "S3.enrichment.3")
def test_the_enriched_prompt_is_what_the_model_is_sent(connect: Connect) -> None:
    """Every message goes through the pipeline once, before the model and the history see it."""
    client = connect([say("ok")], Enriching("late", 80), Enriching("early", 20))
    client.send_message("do it")
    assert provider_of(client).requests[0].messages[0].text == "do it early late"


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.1")
@pytest.mark.spec("S3", "Client API", "S3.client.3")
def test_output_comes_as_it_is_said(connect: Connect) -> None:
    """on_output(source, text, mode): a first "write", then "append", each piece as it arrives."""
    heard: list[tuple[str, str, str]] = []
    client = connect([say("one two three", chunks=3)])
    text = client.send_message("go", on_output=lambda *said: heard.append(said))
    assert "".join(piece for _, piece, _ in heard) == text == "one two three"
    assert [(source, mode) for source, _, mode in heard] == [
        ("model", "write"),
        ("model", "append"),
        ("model", "append"),
    ]


@pytest.mark.spec("S3", "Client API", "S3.client.4")
def test_without_streaming_output_comes_in_one_batch(connect: Connect) -> None:
    """set_streaming_enabled(False) before or after the session began: one "write" with the whole text."""
    heard: list[tuple[str, str, str]] = []
    client = connect([say("one two three", chunks=3), say("four five", chunks=2), say("six seven", chunks=2)])
    client.set_streaming_enabled(False)
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert heard == [("model", "one two three", "write")]
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert heard[1:] == [("model", "four five", "write")]
    client.set_streaming_enabled(True)
    client.send_message("go", on_output=lambda *said: heard.append(said))
    assert len(heard) == 4


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.2")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.3")
def test_the_context_usage_is_true(connect: Connect) -> None:
    """Every key agrees with what the provider counted last and with the model's window."""
    usage = Usage(input_tokens=6000, output_tokens=400)
    client = connect([say("one"), msgspec.structs.replace(say("two"), usage=usage)])
    client.send_message("a")
    client.send_message("b")
    assert client.get_context_usage() == {
        "model": "script",
        "context_limit": 128_000,
        "total_tokens": 6400,
        "prompt_tokens": 6000,
        "output_tokens": 400,
        "turns": 2,
        "percent_used": 5.0,
        "tokens_remaining": 121_600,
    }


@pytest.mark.spec("S3", "Client API", "S3.client.1")
@pytest.mark.spec("S3", "Client API", "S3.client.2")
@pytest.mark.spec("S3", "Cancellation Architecture", "S3.cancel.1")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.4")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.6")
@pytest.mark.parametrize("stopper", ["client", "session"])
def test_stop_from_another_thread_returns_the_partial_text(connect: Connect, stopper: str) -> None:
    """While a message is worked on is_processing is true; stop ends it with what was said, and asks no model."""
    provider = Paced([say("once upon a time", chunks=4), say("never")])
    client = connect(provider)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(client.send_message("Tell me a long story")))
    assert not client.is_processing
    assert client.stop() is False
    thread.start()
    assert provider.spoke.wait(10)
    assert client.is_processing
    assert client.stop() if stopper == "client" else client.get_session().request_stop()
    thread.join(10)
    assert answers[0].startswith("once up")
    assert answers[0].endswith("[Generation cancelled]")
    assert "time" not in answers[0]
    assert not client.is_processing
    assert len(provider.requests) == 1


def test_a_stop_before_anything_was_said_still_says_so(connect: Connect) -> None:
    """With no partial text the response is the mark alone."""
    running = threading.Event()

    def wait(_args: dict[str, Any]) -> str:
        running.set()
        from jaato.tools.call import CURRENT

        current = CURRENT.get()
        assert current is not None
        current.token.wait(10)
        return "late"

    client = connect([call("do", text="x"), say("never")], approved("mine", wait))
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(client.send_message("go")))
    thread.start()
    assert running.wait(10)
    client.stop()
    thread.join(10)
    assert answers == ["[Generation cancelled]"]


@pytest.mark.spec("S3", "UI Hooks Architecture", "S3.hooks.5")
def test_retries_go_to_the_callback(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    """set_retry_callback hears (problem, attempt, attempts, wait); nothing is printed."""
    heard: list[tuple[str, int, int, float]] = []
    client = connect([say("", error="rate_limited", retry_after_s=0.001), say("better")])
    client.set_retry_callback(lambda *said: heard.append(said))
    assert client.send_message("go") == "better"
    ((problem, attempt, most, wait_s),) = heard
    assert "rate_limited" in problem
    assert (attempt, most, wait_s) == (2, 5, 0.001)
    assert capsys.readouterr() == ("", "")


def test_the_permission_plugins_policy_and_channel_are_used(connect: Connect, tmp_path: Path) -> None:
    """What its file denies is denied without a question; what it does not know is asked over its channel."""
    (tmp_path / "work").mkdir(exist_ok=True)
    permission = PermissionPlugin(
        write_policy(tmp_path / "policy.json", '{"version": 1, "blacklist": {"tools": ["bad"]}}'),
        channel_type="queue",
        workspace=tmp_path / "work",
        state_dir=tmp_path / "state",
        trusted=True,
    )
    plugin = Documented("mine", schema("bad", discoverability="core"), schema("good", discoverability="core"))
    client = connect(
        [calls(("bad", {"text": "1"}), ("good", {"text": "2"})), say("done")], plugin, permission=permission
    )

    def answer() -> None:
        pending = permission.channel.next(10)  # type: ignore[attr-defined]  # a queue channel
        asked.append(pending.question.tool)
        pending.answer("y")

    asked: list[str] = []
    thread = threading.Thread(target=answer)
    thread.start()
    assert client.send_message("go") == "done"
    thread.join(10)
    assert asked == ["good"]
    results = [part for m in client.get_history() if m.role == "tool" for part in m.parts]
    assert [result.ok for result in results] == [False, True]  # type: ignore[union-attr]  # tool results


def write_policy(path: Path, text: str) -> Path:
    """A policy file."""
    path.write_text(text)
    return path


def test_a_limit_is_raised(connect: Connect) -> None:
    """What ended the turn is raised with its own type; the session goes on."""
    client = connect([call("do", text="x")] * 3 + [say("more")], approved("mine", lambda _a: 1))
    session = client.get_session()
    session.live.limits = type(session.live.limits)(model_calls=2)
    session.live.reply._retry = RetryPolicy(attempts=1)
    with pytest.raises(LimitReached):
        client.send_message("go")
    assert client.is_processing is False


def test_a_message_sent_meanwhile_waits_and_returns_at_once(connect: Connect) -> None:
    """From another thread, while a message is worked on: queued, answered at the next pause, empty text back."""
    answers: list[str] = []

    def meanwhile(_args: dict[str, Any]) -> str:
        answers.append(client.send_message("also this"))
        return "ok"

    client = connect([call("do", text="x"), say("both")], approved("mine", meanwhile))
    assert client.send_message("go") == "both"
    assert answers == [""]
    assert [m.text for m in provider_of(client).requests[1].messages if m.role == "user"] == [
        "go",
        "also this",
    ]


def test_a_blocking_call_on_the_loop_is_refused(connect: Connect) -> None:
    """A tool that is a coroutine and calls send_message gets an error instead of waiting for itself for ever."""

    async def inside(_args: dict[str, Any]) -> str:
        return client.send_message("inner")

    client = connect([call("do", text="x"), say("done")], approved("mine", inside))
    assert client.send_message("go") == "done"
    (result,) = [part for m in client.get_history() if m.role == "tool" for part in m.parts]
    assert "own event loop" in result.error.message  # type: ignore[union-attr]  # a tool result


def test_the_call_knows_its_session_and_agent(connect: Connect) -> None:
    """A tool is told session, agent, turn and directory of its call."""
    seen: list[Call] = []

    def look(_args: dict[str, Any]) -> str:
        from jaato.tools.call import CURRENT

        current = CURRENT.get()
        assert current is not None
        seen.append(current)
        return "ok"

    client = connect([call("do", text="x"), say("done")], approved("mine", look))
    client.send_message("go")
    state = client.get_session().live.state
    assert (seen[0].session_id, seen[0].agent_id) == (state.session_id, state.agent_id)
    assert seen[0].turn_id
    assert str(seen[0].workspace) == state.workspace
