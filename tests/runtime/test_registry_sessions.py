"""One registry, several sessions, a directory that changes: what plugins are told, and where their tools work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests import kit

from jaato.errors import ConfigError, PluginError
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.user_commands import run_command
from jaato.tools.filesystem.containment import Roots


class Told:
    """A plugin of the documented shape that keeps what it is told, and has commands."""

    def __init__(self, name: str = "told") -> None:
        self.name = name
        self.sessions: list[Any] = []

    def get_tool_schemas(self) -> list[Any]:
        return []

    def get_executors(self) -> dict[str, Any]:
        return {"shout": lambda given: given["input"].upper(), "burst": self._burst}

    def _burst(self, _given: dict[str, Any]) -> str:
        raise RuntimeError("a pipe has burst")

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Nothing to prepare."""

    def shutdown(self) -> None:
        """Nothing to let go of."""

    def get_system_instructions(self) -> str | None:
        return None

    def get_auto_approved_tools(self) -> list[str]:
        return []

    def get_user_commands(self) -> list[Any]:
        return (
            []
            if self.name in ("late", "last")
            else [("shout", "Say it loudly.", True), ("burst", "Fail.", False)]
        )

    def set_session(self, session: Any) -> None:
        self.sessions.append(session)


def test_a_plugin_hears_of_every_session_and_of_the_one_that_is_left(tmp_path: Path) -> None:
    """A plugin exposed late hears of all live sessions, oldest first; when the newest ends, of the one before it."""
    registry = PluginRegistry(workspace=tmp_path)
    early, late = Told("early"), Told("late")
    registry.register_plugin(early, expose=True)
    registry.set_session("one")
    registry.set_session("two")
    registry.register_plugin(late, expose=True)
    assert early.sessions == late.sessions == ["one", "two"]
    registry.forget_session("two")
    assert early.sessions == late.sessions == ["one", "two", "one"]
    registry.forget_session("one")
    last = Told("last")
    registry.register_plugin(last, expose=True)
    assert (early.sessions[3:], last.sessions) == ([], [])


@pytest.mark.parametrize("shared", [True, False])
def test_file_tools_follow_the_workspace(tmp_path: Path, shared: bool) -> None:
    """After set_workspace_path the tools read, search and write there and no longer in the old directory."""
    old, new = tmp_path / "old", tmp_path / "new"
    for place, text in ((old, "here before"), (new, "here now")):
        place.mkdir()
        (place / "a.txt").write_text(text + "\n")
    services = {"environ": {"PATH": "/usr/bin:/bin"}} | ({"roots": Roots(old)} if shared else {})
    registry = PluginRegistry(workspace=old, services=services)
    for name in ("file_edit", "search"):
        registry.expose_tool(name)
    run = registry.get_exposed_executors()
    assert "here before" in str(run["readFile"]({"path": "a.txt"}))
    registry.set_workspace_path(new)
    assert "here now" in str(run["readFile"]({"path": "a.txt"}))
    assert "here now" in str(run["grep_content"]({"pattern": "here"}))
    run["writeNewFile"]({"path": "b.txt", "content": "b"})
    assert (new / "b.txt").exists()
    assert not (old / "b.txt").exists()
    with pytest.raises(Exception, match="outside"):
        run["readFile"]({"path": str(old / "a.txt")})


def test_a_session_takes_the_command_command_execute(tmp_path: Path) -> None:
    """command.execute runs a plugin's command; its shared output reaches the model; an unknown one is an error."""

    async def main() -> None:
        async with kit.session(tmp_path, [kit.say("Understood.")]) as session:
            registry = session.services["registry"]
            registry.register_plugin(Told(), expose=True)
            assert await session.run_command("shout", "be quiet") == "BE QUIET"
            await session.post("go on")
            heard = [message.text for message in kit.provider_of(session).requests[0].messages]
            assert any("The user ran /shout be quiet\nBE QUIET" in text for text in heard)
            with pytest.raises(PluginError, match="command /burst of told failed: RuntimeError: a pipe has"):
                await session.run_command("burst")
            with pytest.raises(ConfigError, match="no command /nothing"):
                await session.run_command("nothing")
            assert await run_command(session, registry, "nothing") is None

    anyio.run(main)


def test_a_background_task_starts_in_the_plugin_that_was_named(tmp_path: Path) -> None:
    """startBackgroundTask with a `plugin` runs that plugin's tool, and refuses a tool of another one."""

    def ping() -> str:
        """Answer."""
        return "pong"

    async def main() -> None:
        start = {"tool_name": "ping", "arguments": {}}
        script = [
            kit.call("get_tool_schemas", names=["start_background", "ping"]),
            kit.call("startBackgroundTask", plugin="file_edit", **start),
            kit.call("startBackgroundTask", plugin="test", **start),
            kit.say("Done."),
        ]
        async with kit.session(tmp_path, script, [ping], ["introspection", "background"]) as session:
            await session.post("go")
            _, refused, started = kit.results(session)
            assert refused.error is not None
            assert "is of the plugin test, not of file_edit" in refused.error.message
            assert started.ok

    anyio.run(main)
