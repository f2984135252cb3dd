"""`JaatoRuntime` and its sessions: what they share, what each has alone, which plugins they use."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit import call, say
from tests.spec.documented import Documented
from tests.spec.facades import Connect, approved, provider_of

from jaato.errors import ConfigError
from jaato.plugins.permission import PermissionPlugin
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.embedding.client import JaatoClient, JaatoRuntime
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.session_options import SessionOptions
from jaato.tools.ledger import TokenLedger


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
        assert main.live.model.ledger is other.live.model.ledger is ledger is runtime.ledger
        assert ledger.totals()["model_calls"] == 2
        assert main.live.inbox.messages is not other.live.inbox.messages
        assert main.live.gate is not other.live.gate
        assert main.live.state.session_id != other.live.state.session_id
    finally:
        other.close()


def test_a_runtime_without_a_registry_makes_one_and_ends_it(tmp_path: Path) -> None:
    """All sessions use the same plugins; closing the runtime shuts them down, closing a session does not."""
    (tmp_path / "work").mkdir()
    runtime = JaatoRuntime(
        SessionOptions(
            model="script",
            provider=ScriptedProvider([say("one"), say("two")]),
            workspace=tmp_path / "work",
            state_dir=tmp_path / "state",
        )
    )
    first, second = runtime.create_session(), runtime.create_session()
    assert first.live.catalog is second.live.catalog
    assert first.live.model.ledger is second.live.model.ledger
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
