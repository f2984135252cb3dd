"""`FileSessionPlugin.set_description` and `needs_description`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit import call
from tests.session.copies import client_of, files, kept, state_of

from jaato.abc.session_plugin import SessionConfig
from jaato.errors import SessionNotFound, ToolError
from jaato.plugins.session import FileSessionPlugin, create_plugin
from jaato.protocol.ids import new_id
from jaato.providers.scripted import Step


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.6")
def test_a_description_is_in_the_list_and_in_the_resumed_session(tmp_path: Path) -> None:
    """It is written into the saved file, on one line, and a session made of the file has it."""
    client, plugin = kept(tmp_path, [Step("one"), Step("two")], auto_save_on_exit=False)
    with client:
        client.send_message("first")
        client.execute_user_command("save")
        session_id = plugin.list_sessions()[0].session_id
    plugin.set_description(session_id, "Fixes the\nparser")
    assert [one.description for one in plugin.list_sessions()] == ["Fixes the parser"]
    assert plugin.load(session_id).description == "Fixes the parser"
    assert len(files(tmp_path)) == 1
    elsewhere = tmp_path / "elsewhere"
    copies = elsewhere / "work" / ".jaato" / "sessions"
    copies.mkdir(parents=True)
    (copies / files(tmp_path)[0].name).write_bytes(files(tmp_path)[0].read_bytes())
    other, _ = kept(elsewhere, [Step("three")])
    with other:
        other.resume_session(session_id)
        assert [message.text for message in other.get_history()] == ["first", "one"]
        assert other.get_session().live.state.description == "Fixes the parser"


def test_what_cannot_be_described(tmp_path: Path) -> None:
    """No such session, or an empty description: the file stays as it is."""
    client, plugin = kept(tmp_path, [Step("one")], auto_save_on_exit=False)
    with client:
        client.send_message("first")
        client.execute_user_command("save")
    before = files(tmp_path)[0].read_bytes()
    with pytest.raises(SessionNotFound):
        plugin.set_description(new_id("s"), "x")
    with pytest.raises(ToolError, match="empty"):
        plugin.set_description(plugin.list_sessions()[0].session_id, " \n")
    assert files(tmp_path)[0].read_bytes() == before


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.6")
@pytest.mark.parametrize(
    ("turns", "description", "after", "needed"),
    [(2, None, 3, False), (3, None, 3, True), (9, None, 3, True), (3, "x", 3, False), (9, None, 0, False)],
)
def test_a_session_needs_a_description_after_some_turns(
    turns: int, description: str | None, after: int, needed: bool
) -> None:
    """As `request_description_after_turns` says; 0 means never."""
    config = SessionConfig(request_description_after_turns=after)
    state = state_of(turns=turns, description=description)
    assert FileSessionPlugin().needs_description(state, config) is needed


@pytest.mark.spec("S3", "Manual Plugin Registration", "S3.manual.3")
@pytest.mark.parametrize("registered_first", [False, True])
@pytest.mark.parametrize("tools", [None, ["cli"]])
def test_the_model_can_describe_the_session_as_it_is_asked_to(
    tmp_path: Path, tools: list[str] | None, registered_first: bool
) -> None:
    """With a session plugin `session_describe` is among the tools, though only `cli` was exposed, and it works."""
    script = [Step("one"), call("session_describe", description="Greetings"), Step("two"), Step("three")]
    client = client_of(tmp_path, script, "cli")
    plugin = create_plugin()
    with client:
        runtime = client.get_runtime()
        session = runtime.create_session(tools=tools)
        if registered_first:
            runtime.registry.register_plugin(plugin, enrichment_only=True)
        config = SessionConfig(request_description_after_turns=1)
        session.set_session_plugin(plugin, config)
        if not registered_first:
            runtime.registry.register_plugin(plugin, enrichment_only=True)
        session.send_message("first")
        session.send_message("second")
        asked = [message.text for message in session.get_history() if message.role == "user"]
        assert ["describe it" in text for text in asked] == [False, True]
        assert session.live.state.description == "Greetings"
        session.close()
