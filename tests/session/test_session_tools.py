"""`session_describe` and `askPermission` in a real session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.data_workspace import Desk
from tests.kit import call, recorded, reopened, results, say, session

from jaato.errors import ToolError
from jaato.plugins.permission.tools import PermissionToolsPlugin
from jaato.plugins.session import SessionToolsPlugin
from jaato.protocol.events import SessionUpdated
from jaato.providers.scripted import Step
from jaato.tools.permissions.gate import Policy

PLUGINS = ("introspection", "session", "permission", "cli", "file_edit")
POLICY = {
    "defaultPolicy": "ask",
    "blacklist": {"tools": ["removeFile"]},
    "whitelist": {"patterns": ["git status"]},
}


def activated(*names: str) -> Step:
    """The step that activates tools."""
    return call("get_tool_schemas", names=list(names))


def test_the_description_is_durable_and_listed(tmp_path: Path) -> None:
    """The model's description is an event of the log, in the list of sessions, and there after a restart."""

    async def main() -> None:
        script = [
            activated("session_describe"),
            call("session_describe", description=" Fix the \n build\x1b[31m "),
            call("session_describe", description="Fix the build [31m"),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=PLUGINS) as live:
            await live.post("go")
            assert results(live)[1].structured == {"description": "Fix the build [31m"}
            assert sum(isinstance(event, SessionUpdated) for event in recorded(live)) == 1
            [row] = live.journal.store.sessions(None)
            assert row.description == "Fix the build [31m"
            name = live.state.session_id
        async with reopened(tmp_path, name, []) as again:
            assert again.state.description == "Fix the build [31m"

    anyio.run(main)


def test_a_permission_is_explained_and_nobody_is_asked(tmp_path: Path) -> None:
    """Allowed, asked and denied calls are told apart with the reason, by alias and command too; nothing is run."""

    async def main() -> None:
        questions: list[dict[str, Any]] = [
            {"tool": "readFile", "arguments": {"path": "a"}},
            {"tool": "removeFile"},
            {"tool": "runCommand", "arguments": {"command": "git status"}},
            {"tool": "run", "arguments": {"command": "git status; touch made", "need": ["write"]}},
            {"tool": "writeNewFile", "arguments": {"path": ".git/hooks/pre-commit", "content": ""}},
            {"tool": "run", "arguments": {"no": 1}},
            {"tool": "rum"},
        ]
        script = [activated("askPermission"), *[call("askPermission", **q) for q in questions], say("done")]
        policy = Policy.of(POLICY)
        async with session(tmp_path, script, plugins=PLUGINS, policy=policy) as live:
            await live.post("go")
            *said, last = results(live)[1:]
            answers = [one.structured for one in said]
            assert [one["access"] for one in answers] == [
                "allowed",
                "denied",
                "allowed",
                "asks",
                "asks",
                "asks",
            ]
            assert [one["tool"] for one in answers[2:4]] == ["run", "run"]
            assert [part["access"] for part in answers[3]["parts"]] == ["allowed", "asks"]
            assert answers[4]["method"] == "control_path"
            assert answers[5]["invalid_arguments"]
            assert "blacklist" in answers[1]["reason"]
            assert "without arguments" in answers[1]["note"]
            assert last.error is not None
            assert "'rum'" in last.error.message
        assert not (tmp_path / "work" / "made").exists()

    anyio.run(main)


def test_outside_a_session_there_is_nothing_to_describe(tmp_path: Path) -> None:
    """Without a session, and with an empty description, the error says so."""

    async def main() -> None:
        desk = Desk(SessionToolsPlugin, tmp_path)
        with pytest.raises(ToolError, match="no session"):
            await desk.call("session_describe", description="x")
        with pytest.raises(ToolError, match="no session"):
            await Desk(PermissionToolsPlugin, tmp_path).call("askPermission", tool="run")
        with pytest.raises(ToolError, match="empty"):
            await desk.call("session_describe", description="\x00 \n")

    anyio.run(main)
