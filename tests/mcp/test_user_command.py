"""The command `/mcp` of a session: the rows of the tool `mcp_servers` for the user, and a server started by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.kit import session
from tests.mcp.hosting import configure, raw

from jaato.errors import ConfigError, ToolError
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.runtime.user_commands import run_command
from jaato.tools.remote.sources import source_context


def test_the_command_of_a_session(tmp_path: Path) -> None:
    """`/mcp` shows the rows that the tool gives, starts and restarts a server, and says why one does not start."""
    configure(
        tmp_path, {"raw": raw("fine", str(tmp_path)), "gone": raw("exit"), "off": raw("fine", disabled=True)}
    )

    async def main() -> None:
        async with session(tmp_path, [], plugins=("introspection", "mcp")) as live:
            registry = live.services["registry"]

            async def typed(rest: str = "") -> str:
                text = await run_command(live, registry, "mcp", rest)
                assert text is not None
                return text

            assert "raw  configured  (stdio, user)" in await typed()
            assert (await typed("connect raw")).startswith("raw  started")
            with pytest.raises(ToolError):
                await typed("connect gone")
            rows = {row["name"]: row for row in json.loads(await typed("json"))["servers"]}
            assert (rows["raw"]["state"], rows["gone"]["state"], rows["off"]["state"]) == (
                "started",
                "failed",
                "switched off",
            )
            assert rows["raw"]["tools"] > 0
            assert rows["gone"]["why"]
            assert rows["gone"]["last_error"] == rows["gone"]["why"]
            assert "mcp__raw__echo" in rows["raw"]["tool_names"]
            started = rows["raw"]["last_start"]
            assert (await typed("restart raw")).startswith("raw  started")
            rows = {row["name"]: row for row in json.loads(await typed("json"))["servers"]}
            assert rows["raw"]["last_start"] > started
            assert (await typed("restart")).startswith("Usage")

    try:
        anyio.run(main)
    finally:
        SERVER_POOL.close()


@asynccontextmanager
async def typing(path: Path) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """What types the arguments of `/mcp` in a session, and returns the output."""
    async with session(path, [], plugins=("introspection", "mcp")) as live:

        async def typed(rest: str) -> str:
            text = await run_command(live, live.services["registry"], "mcp", rest)
            assert text is not None
            return text

        yield typed
    await anyio.to_thread.run_sync(SERVER_POOL.close)


def configured(path: Path) -> Directory:
    """The servers as a new session has them."""
    return Directory(source_context(path / "work", {"HOME": str(path)}))


async def states(typed: Callable[[str], Awaitable[str]]) -> dict[str, tuple[str, bool]]:
    """The state of each server, and whether it has tools."""
    rows = json.loads(await typed("json"))["servers"]
    return {row["name"]: (row["state"], bool(row["tool_names"])) for row in rows}


def test_a_server_is_switched_off_and_on_for_good(tmp_path: Path) -> None:
    """`/mcp disable` writes it to the file that configures the server and takes its tools away; `/mcp enable` gives them
    back and restores the file."""
    configure(tmp_path, {"raw": raw("fine", str(tmp_path)), "odd": raw("fine", "x", enabled=False)})
    file = tmp_path / ".mcp.json"
    before = json.loads(file.read_text())

    async def main() -> None:
        async with typing(tmp_path) as typed:
            await typed("connect raw")
            assert (await states(typed))["raw"] == ("started", True)
            done = await typed("disable raw")
            assert done == f"The MCP server 'raw' is switched off in {file}, here and in new sessions."
            assert (await states(typed))["raw"] == ("switched off", False)
            assert json.loads(file.read_text())["mcpServers"]["raw"]["disabled"] is True
            assert configured(tmp_path).sources["raw"].disabled
            with pytest.raises(ToolError, match="switched off"):
                await typed("connect raw")
            assert "switched on" in await typed("enable raw")
            assert (await states(typed))["raw"] == ("started", True)
            assert json.loads(file.read_text()) == before
            assert "switched on" in await typed("enable odd")
            assert not configured(tmp_path).sources["odd"].disabled
            with pytest.raises(ConfigError, match="no MCP server 'none'"):
                await typed("disable none")

    anyio.run(main)


def test_switching_a_workspaces_server_on_gives_no_trust(tmp_path: Path) -> None:
    """One that was trusted is trusted again once its entry is as it was; what the workspace had switched off needs trust in
    new sessions. An entry that is gone is named, and nothing changes."""
    file = tmp_path / "work" / ".mcp.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps({"mcpServers": {"ours": raw("fine"), "off": raw("exit", disabled=True)}, "note": "kept"})
    )
    for config in configured(tmp_path).sources.values():
        configured(tmp_path).trust.add(config)

    async def main() -> None:
        async with typing(tmp_path) as typed:
            assert "switched off" in await typed("disable ours")
            assert "trust" not in await typed("enable ours")
            assert configured(tmp_path).trusts(configured(tmp_path).sources["ours"])
            done = await typed("enable off")
            assert done.endswith("New sessions need trust in the changed entry: `jaato mcp trust off`.")
            assert not configured(tmp_path).trusts(configured(tmp_path).sources["off"])
            assert json.loads(file.read_text())["note"] == "kept"
            file.write_text("{}")
            with pytest.raises(ConfigError, match="has no server 'ours'"):
                await typed("disable ours")
            assert file.read_text() == "{}"
            assert (await states(typed))["ours"][0] != "switched off"

    anyio.run(main)
