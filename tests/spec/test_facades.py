"""`JaatoClient` and `JaatoSession`: what the documents promise of a conversation, over real sessions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit import call, calls, say
from tests.spec.documented import Documented, Enriching, schema
from tests.spec.facades import Connect, approved, provider_of

from jaato.agent.retry import RetryPolicy
from jaato.agent.turn import Limits
from jaato.errors import ConfigError, LimitReached
from jaato.plugins.permission import PermissionPlugin
from jaato.protocol.messages import Usage
from jaato.runtime.embedding.client import JaatoClient
from jaato.tools.call import Call
from jaato.tools.ledger import TokenLedger


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


def test_a_conversation_begins_with_a_history(connect: Connect) -> None:
    """`reset_session(history)` begins with messages, of another conversation or as plain data; a wrong one changes nothing."""
    client = connect([say("one"), say("two"), say("three"), say("four")])
    client.send_message("first")
    talk = client.get_history()
    client.reset_session(talk)
    assert [m.text for m in client.get_history()] == ["first", "one"]
    assert client.send_message("second") == "two"
    assert [m.text for m in provider_of(client).requests[1].messages][:3] == ["first", "one", "second"]
    with pytest.raises(ConfigError, match="history"):
        client.reset_session([{"role": "nobody", "content": "x"}])
    assert [m.text for m in client.get_history()][-2:] == ["second", "two"]
    client.reset_session([{"role": "user", "content": "My name is Ada."}])
    client.send_message("third")
    client.reset_session()
    client.send_message("fourth")
    assert [m.text for m in provider_of(client).requests[3].messages] == ["fourth", "four"]


@pytest.mark.spec("S3", "High-Level Overview", "S3.overview.1")
def test_connect_takes_a_project_or_a_provider(tmp_path: Path) -> None:
    """With project (or project_id) and location it is Gemini on Vertex; without connect nothing can be sent."""
    for words in ({"project": "p1"}, {"project_id": "p1"}):
        client = JaatoClient()
        client.connect(location="us-central1", model="gemini-2.5-flash", **words)
        blueprint = client._require_connected()
        assert blueprint.provider == "google_genai"
        assert blueprint.model == "gemini-2.5-flash"
        assert blueprint.environ is not None
        assert blueprint.environ["GOOGLE_CLOUD_PROJECT"] == "p1"
        assert blueprint.environ["GOOGLE_CLOUD_LOCATION"] == "us-central1"
    client = JaatoClient()
    client.connect("p2", "europe-west1", "gemini-2.5-pro")
    assert (client._require_connected().environ or {})["GOOGLE_CLOUD_PROJECT"] == "p2"
    with pytest.raises(ConfigError, match="Call connect"):
        JaatoClient().send_message("hi")


@pytest.mark.spec("S3", "Prompt Enrichment Pipeline", "S3.enrichment.3")
def test_the_enriched_prompt_is_what_the_model_is_sent(connect: Connect) -> None:
    """Every message goes through the pipeline once, before the model and the history see it."""
    client = connect([say("ok")], Enriching("late", 80), Enriching("early", 20))
    client.send_message("do it")
    assert provider_of(client).requests[0].messages[0].text == "do it early late"


FIGURES = (
    "context_limit",
    "total_tokens",
    "prompt_tokens",
    "output_tokens",
    "turns",
    "percent_used",
    "tokens_remaining",
)


@pytest.mark.spec("S3", "Typical Client Usage", "S3.usage.2")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.3")
def test_the_context_usage_is_true(connect: Connect) -> None:
    """Every key agrees with what the provider counted last and with the model's window, and the parts add up to it."""
    usage = Usage(input_tokens=6000, output_tokens=400)
    client = connect([say("one"), msgspec.structs.replace(say("two"), usage=usage)])
    client.send_message("a")
    client.send_message("b")
    told = client.get_context_usage()
    assert sum(block["tokens"] for block in told["blocks"]) == 6400
    assert told["context_limit_source"] == "catalogue"
    assert told["threshold_percent"] == 80.0
    assert {key: told[key] for key in ("model", *FIGURES)} == {
        "model": "script",
        "context_limit": 128_000,
        "total_tokens": 6400,
        "prompt_tokens": 6000,
        "output_tokens": 400,
        "turns": 2,
        "percent_used": 5.0,
        "tokens_remaining": 121_600,
    }


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
    thread.join(60)
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
    turns = session.live.turns
    turns._context = msgspec.structs.replace(turns._context, limits=Limits(model_calls=2))
    session.live.model.retry = RetryPolicy(attempts=1)
    with pytest.raises(LimitReached):
        client.send_message("go")
    assert client.is_processing is False


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
