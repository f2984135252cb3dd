"""Sessions whose client gives them MCP servers begin at once, also where a server is slow or hangs at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, say
from tests.mcp.hosting import raw
from tests.server.serving import Served, served

from jaato.client.connection import connect
from jaato.errors import JaatoError
from jaato.providers.scripted import Step
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.server.sessions import creation


def late(flag: Path) -> dict[str, Any]:
    """A server that starts when a file is there."""
    script = 'while ! [ -e "$0" ]; do sleep 0.05; done; exec "$@"'
    good = raw("fine")
    return {
        "command": "sh",
        "args": ["-c", script, str(flag), good["command"], *good["args"]],
        "sandbox": {"profile": "full"},
    }


def states(server: Served, session_id: str) -> dict[str, str]:
    """The state of each server of a session."""
    registry: PluginRegistry = server.hub.pool.loaded[session_id].session.services["registry"]
    toolset = registry.toolset("mcp")
    assert toolset is not None
    plugin: Any = toolset.plugin
    return {row["name"]: row["state"] for row in plugin.mcp_servers()["servers"]}


def test_a_session_begins_although_a_server_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins while the server starts, which its state shows; the tools of one that was there are declared, those of the
    other are found when it is there, and can be called."""
    monkeypatch.setattr(creation, "GIVEN_SERVERS_WITHIN_S", 5.0)
    flag = tmp_path / "go"
    search = call("list_tools", query="echo")
    script: list[Step] = [
        say("Hello."),
        search,
        call("get_tool_schemas", names=["mcp__late__echo"]),
        call("mcp__late__echo", text="here"),
        say("Done."),
    ]

    async def main() -> None:
        async with served(tmp_path, script) as server, connect(server.path, name="one") as one:
            servers = {"late": late(flag), "soon": raw("fine")}
            session = await one.create(
                tmp_path / "work", mcp_servers=servers, yes=True, allow=["mcp__late__echo"]
            )
            assert states(server, session.id) == {"late": "starting", "soon": "started"}
            live = server.hub.pool.loaded[session.id].session
            assert [name for name in live.state.core_tools if name.startswith("mcp__")] == ["mcp__soon__echo"]
            assert await session.run("hello") == "Hello."
            flag.touch()
            with anyio.fail_after(30):
                while states(server, session.id)["late"] != "started":
                    await anyio.sleep(0.05)
            assert await session.run("echo") == "Done."
            ends = [
                entry for entry in session.state.entries if getattr(entry, "tool", "") == "mcp__late__echo"
            ]
            assert [end.result.ok for end in ends] == [True], ends  # type: ignore[union-attr]

    anyio.run(main)


def test_a_server_that_fails_at_once_is_an_error(tmp_path: Path) -> None:
    """The client gets the reason, and no session begins."""

    async def main() -> None:
        async with served(tmp_path, []) as server, connect(server.path, name="one") as one:
            bad = {"command": "sh", "args": ["-c", "exit 3"]}
            for _ in range(2):
                with pytest.raises(JaatoError, match="bad"):
                    await one.create(tmp_path / "work", mcp_servers={"bad": bad})
            assert (await one.list()).sessions == []

    anyio.run(main)
