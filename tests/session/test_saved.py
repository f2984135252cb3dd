"""Sessions as files of a workspace: settings, the plugin that writes them, and what hostile ones can do."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit import say
from tests.session.copies import client_of, files, kept

from jaato.abc.session_plugin import SavedSession, SessionConfig, SessionPlugin, SessionState
from jaato.errors import ConfigError, PluginError, SessionNotFound
from jaato.plugins.session import FileSessionPlugin, create_plugin, load_session_config
from jaato.runtime.embedding.client import JaatoClient
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.session_saving import load_session_plugin

# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.2")
def test_the_settings_are_read_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`load_session_config()` reads the five keys of `.jaato/.sessions.json`, and has defaults without it."""
    monkeypatch.chdir(tmp_path)
    assert load_session_config() == SessionConfig(".jaato/sessions", True, 10, 3, 20)
    (tmp_path / ".jaato").mkdir()
    given = {
        "storage_path": "kept", "auto_save_on_exit": False, "checkpoint_after_turns": 2,
        "request_description_after_turns": 0, "max_sessions": 1,
    }  # fmt: skip
    (tmp_path / ".jaato" / ".sessions.json").write_text(json.dumps(given))
    assert load_session_config() == SessionConfig("kept", False, 2, 0, 1)
    assert load_session_config(tmp_path / ".jaato" / ".sessions.json") == load_session_config()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "null", '{"max_session": 1}', '{"max_sessions": 0}', '{"max_sessions": true}',
        '{"max_sessions": 1e9}', '{"checkpoint_after_turns": -1}', '{"auto_save_on_exit": 1}',
        '{"storage_path": ""}', '{"storage_path": "/etc"}', '{"storage_path": "../up"}', '{"storage_path": 3}',
        '{"storage_path": "a\\u0000b"}', "[" * 100_000, " " * 70_000,
    ],
)  # fmt: skip
def test_bad_settings_are_refused_by_name(tmp_path: Path, text: str) -> None:
    """A damaged, unknown or hostile setting is a `ConfigError` that names the file; none leads out of the workspace."""
    (tmp_path / ".jaato").mkdir()
    (tmp_path / ".jaato" / ".sessions.json").write_text(text)
    with pytest.raises(ConfigError, match=r"\.sessions\.json"):
        load_session_config(workspace=tmp_path)


def test_settings_behind_a_link_are_not_read(tmp_path: Path) -> None:
    """A link in the place of the file or its directory is refused."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ".sessions.json").write_text("{}")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".jaato").symlink_to(tmp_path / "outside")
    with pytest.raises(ConfigError):
        load_session_config(workspace=tmp_path / "work")


# --- the plugin ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.1")
@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.9")
def test_sessions_are_saved_and_go_on(tmp_path: Path) -> None:
    """`set_session_plugin`: the session is saved at its end as a private file; loaded where the store does not have it,
    it is a session again, with all it knew."""
    client, plugin = kept(tmp_path, [say("noted: blue")], "session")
    assert isinstance(plugin, SessionPlugin)
    client.send_message("my colour is blue")
    session_id = client.get_session().live.state.session_id
    assert files(tmp_path) == []
    client.close()
    [file] = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.name == f"{session_id}.json"
    [row] = plugin.list_sessions()
    assert (row.session_id, row.turns, type(row)) == (session_id, 1, SavedSession)
    assert plugin.load(session_id).events

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "work").symlink_to(tmp_path / "work")
    other, _ = kept(elsewhere, [say("noted: blue"), say("blue")], "session")
    assert session_id in other.execute_user_command("resume", session_id[:20])
    assert [message.text for message in other.get_history()] == ["my colour is blue", "noted: blue"]
    assert other.send_message("which colour?") == "blue"
    other.close()


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.3")
def test_the_four_commands(tmp_path: Path) -> None:
    """`save`, `sessions`, `resume` and `delete-session` work where a user can type commands, in the store's favour."""
    client, _ = kept(tmp_path, [say("one"), say("two")], auto_save_on_exit=False)
    names = [command.name for command in client.get_user_commands()]
    assert {"save", "resume", "sessions", "delete-session"} <= set(names)
    assert client.execute_user_command("sessions").startswith("No session is saved")
    client.send_message("go")
    first = client.get_session().live.state.session_id
    assert client.execute_user_command("save") == f"Saved as .jaato/sessions/{first}.json."
    client.reset_session()
    client.send_message("go")
    assert first in client.execute_user_command("sessions")
    assert "gone" in client.execute_user_command("delete-session", first)
    assert "no saved" in client.execute_user_command("delete-session", first)
    assert first in client.execute_user_command("resume", first)
    assert [message.text for message in client.get_history()] == ["go", "one"]
    for unknown in ("../../x", "", "s" * 1000):
        with pytest.raises(SessionNotFound):
            client.execute_user_command("resume", unknown)
    assert [message.text for message in client.get_history()] == ["go", "one"]
    client.close()
    assert files(tmp_path) == []


def test_the_commands_are_those_of_the_built_in_plugin_too(tmp_path: Path) -> None:
    """Without a session plugin of the program's the commands are there with the built-in `session` plugin."""
    client = client_of(tmp_path, [say("one")], "session")
    assert "delete-session" in [command.name for command in client.get_user_commands()]
    client.send_message("go")
    assert client.execute_user_command("save").startswith("Saved as .jaato/sessions/s")
    client.close()
    assert len(files(tmp_path)) == 1


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.4")
def test_hooks_are_called_and_checkpoints_made(tmp_path: Path) -> None:
    """A plugin hears of start, turns and end, in order, and saves every `checkpoint_after_turns` turns; one that fails
    harms nothing."""
    told: list[str] = []

    class Mine(FileSessionPlugin):
        def on_session_start(
            self, state: SavedSession | SessionConfig, config: SessionConfig | None = None
        ) -> None:
            assert isinstance(state, SavedSession)
            assert isinstance(config, SessionConfig)
            told.append(f"start {state.turns}")

        def on_turn_complete(self, state: SavedSession, config: SessionConfig) -> None:
            told.append(f"turn {state.turns}")
            raise RuntimeError("no")

        def on_session_end(self, state: SavedSession, config: SessionConfig) -> None:
            told.append(f"end {state.turns}")

        def save(self, state: SessionState) -> str:
            told.append(f"save {state.turns}")
            return super().save(state)

    client = client_of(tmp_path, [say(str(n)) for n in range(3)])
    client.set_session_plugin(Mine(), SessionConfig(checkpoint_after_turns=2))
    for _ in range(3):
        client.send_message("go")
    client.close()
    assert told == ["start 0", "turn 1", "save 2", "turn 2", "turn 3", "save 3", "end 3"]


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.4")
def test_the_first_hook_may_take_the_settings_alone(tmp_path: Path) -> None:
    """`on_session_start(config)` as the class diagram prints it: called so for a plugin of that shape, and can be called."""
    told: list[SessionConfig] = []

    class Documented(FileSessionPlugin):
        def on_session_start(self, config: SessionConfig) -> None:  # type: ignore[override]  # the documented shape
            told.append(config)

    config = SessionConfig(checkpoint_after_turns=0, auto_save_on_exit=False)
    client = client_of(tmp_path, [say("one")])
    plugin: Any = Documented()
    client.set_session_plugin(plugin, config)
    with client:
        assert client.send_message("go") == "one"
    assert told == [config]
    plugin = create_plugin()
    plugin.on_session_start(config)
    assert plugin.enrich_prompt("go").prompt == "go"


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.1")
def test_the_oldest_files_go_and_no_log(tmp_path: Path) -> None:
    """`max_sessions` caps the files; other files, and every log, stay."""
    client, plugin = kept(tmp_path, [say(str(n)) for n in range(3)], max_sessions=2)
    ids = []
    for _ in range(3):
        client.send_message("go")
        ids.append(client.get_session().live.state.session_id)
        client.reset_session()
        mine = tmp_path / "work" / ".jaato" / "sessions" / "mine.json"
        mine.write_text("mine")
    assert {row.session_id for row in plugin.list_sessions()} == set(ids[1:])
    assert mine.read_text() == "mine"
    assert ids[0] in client.execute_user_command("resume", ids[0])
    client.close()


@pytest.mark.spec("S3", "Session Plugins (Separate System)", "S3.sessionplugins.5")
def test_the_description_is_asked_for_when_the_settings_say(tmp_path: Path) -> None:
    """`request_description_after_turns` decides when the model is asked; 0 never asks."""
    for turns, asked in ((1, [False, True, False]), (2, [False, False, True]), (0, [False] * 3)):
        path = tmp_path / str(turns)
        path.mkdir()
        client, _ = kept(
            path, [say(str(n)) for n in range(3)], "session", request_description_after_turns=turns
        )
        for _ in range(3):
            client.send_message("go")
        said = [message.text for message in client.get_history() if message.role == "user"]
        assert ["no description yet" in text for text in said] == asked
        client.close()


@pytest.mark.spec("S3", "Manual Plugin Registration", "S3.manual.3")
def test_a_session_plugin_enriches_prompts_and_exposes_nothing(tmp_path: Path) -> None:
    """`register_plugin(session_plugin, enrichment_only=True)`: the description is asked for, once; no tool, no command."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = create_plugin()
    registry.register_plugin(plugin, enrichment_only=True)
    assert registry.get_exposed_tool_schemas() == []
    assert registry.get_exposed_user_commands() == []
    assert registry.get_prompt_enrichment_subscribers() == [plugin]
    assert registry.enrich_prompt("go").prompt == "go"
    head = SavedSession(
        session_id="s", workspace="", provider="", model="", created_at="", updated_at="", turns=3
    )
    plugin.on_turn_complete(head, SessionConfig())
    assert "describe it" in registry.enrich_prompt("go").prompt
    plugin.on_turn_complete(msgspec.structs.replace(head, description="known"), SessionConfig())
    assert registry.enrich_prompt("go").prompt == "go"
    registry.shutdown()


def test_session_plugins_are_found_and_checked() -> None:
    """`file` is built in; what is unknown, or lacks a method, is a `PluginError` that says so."""
    assert isinstance(load_session_plugin("file", {"storage_path": "x"}), FileSessionPlugin)
    with pytest.raises(PluginError, match="there are file"):
        load_session_plugin("other")
    client = JaatoClient()
    with pytest.raises(PluginError, match="no initialize, shutdown"):
        client.set_session_plugin(object())  # type: ignore[arg-type]
