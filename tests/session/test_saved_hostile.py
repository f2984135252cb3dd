"""Saved sessions that strangers bring: what they are taken for, and what they decide."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit import call, say
from tests.session.copies import files, kept, state_of

from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.plugins.session import FileSessionPlugin
from jaato.protocol.events import PermissionGranted, SessionUpdated
from jaato.protocol.ids import new_id
from jaato.protocol.specs import Grant


def test_a_file_decides_nothing_about_the_session_it_becomes(tmp_path: Path) -> None:
    """Directory, model, system prompt, mode and grants of a file are not taken over."""
    client, plugin = kept(
        tmp_path, [call("writeNewFile", path="x", content="y"), say("done")], "session", "file_edit"
    )
    own = client.get_session().live.state
    mine = state_of()
    head: dict[str, Any] = {"session_id": mine.session_id, "agent_id": mine.events[0].agent_id}
    grant = Grant(
        id=new_id("g"), effect="allow", tool="writeNewFile", shape=None, scope="session", workspace="/",
        created_by="x", evidence="",
    )  # fmt: skip
    events = [
        *mine.events,
        PermissionGranted(**head, seq=3, grant=grant),
        SessionUpdated(**head, seq=4, provider="evil", model="evil", name="taken", mode="auto"),
    ]
    plugin.set_workspace_path(str(tmp_path / "work"))
    plugin.save(msgspec.structs.replace(mine, events=events))
    client.resume_session(mine.session_id)
    state = client.get_session().live.state
    assert (state.workspace, state.system_prompt) == (str(tmp_path / "work"), own.system_prompt)
    assert (state.provider, state.model, state.name) == ("scripted", "script", "taken")
    assert state.grants == {}
    assert (state.mode, client.get_session().live.gate.policy.mode) == (None, "ask")
    client.send_message("go")
    assert not (tmp_path / "work" / "x").exists()
    client.close()


@pytest.mark.parametrize(
    "change",
    [
        b"", b"{}", b"[]", b"null", b"\x00", b"[" * 100_000, b'{"session_id": 3}', b'{"format":"jaato-session"}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_and_hides_no_other(tmp_path: Path, change: bytes) -> None:
    """Loading it is a `ConfigError`; the list shows the others."""
    plugin = FileSessionPlugin()
    plugin.set_workspace_path(str(tmp_path))
    good, bad = state_of(), state_of()
    plugin.save(good)
    plugin.save(bad)
    (tmp_path / ".jaato" / "sessions" / f"{bad.session_id}.json").write_bytes(change)
    with pytest.raises(ConfigError, match=bad.session_id):
        plugin.load(bad.session_id)
    assert [row.session_id for row in plugin.list_sessions()] == [good.session_id]


@pytest.mark.parametrize("events", ["none", "no start", "no agent", "other session"])
def test_a_file_that_is_no_whole_session_is_refused(tmp_path: Path, events: str) -> None:
    """A log without its first record or its agent, or under another name, is a `ConfigError`; nothing is stored."""
    client, plugin = kept(tmp_path, [])
    client.get_session()
    saved = state_of()
    name = saved.session_id
    match events:
        case "none":
            saved = msgspec.structs.replace(saved, events=[])
        case "no start":
            saved = msgspec.structs.replace(saved, events=saved.events[1:])
        case "no agent":
            saved = msgspec.structs.replace(saved, events=saved.events[:1])
    path = tmp_path / "work" / plugin.save(saved)
    if events == "other session":
        name = new_id("s")
        path.rename(path.with_name(f"{name}.json"))
    with pytest.raises(JaatoError):
        client.resume_session(name)
    with pytest.raises(SessionNotFound):
        client.get_session().live.journal.store.find(name)
    client.close()


def test_no_link_is_written_through_or_read(tmp_path: Path) -> None:
    """A workspace whose `.jaato/sessions` is a link gets no file there; a link in the place of a file is not read."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "work" / ".jaato").mkdir(parents=True)
    link = tmp_path / "work" / ".jaato" / "sessions"
    link.symlink_to(tmp_path / "outside")
    plugin = FileSessionPlugin()
    plugin.set_workspace_path(str(tmp_path / "work"))
    with pytest.raises(JaatoError):
        plugin.save(state_of())
    assert os.listdir(tmp_path / "outside") == []
    link.unlink()
    saved = state_of()
    file = tmp_path / "work" / plugin.save(saved)
    file.rename(tmp_path / "outside" / "x.json")
    file.symlink_to(tmp_path / "outside" / "x.json")
    with pytest.raises(ConfigError):
        plugin.load(saved.session_id)


def test_secrets_are_masked_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the log masks is masked in the file too."""
    monkeypatch.setenv("MY_API_KEY", "kq7Zr2pXv9LwT4mB8sNd")
    client, _ = kept(tmp_path, [say("fine")])
    client.send_message("the key is kq7Zr2pXv9LwT4mB8sNd")
    client.close()
    assert b"kq7Zr2pXv9LwT4mB8sNd" not in files(tmp_path)[0].read_bytes()
