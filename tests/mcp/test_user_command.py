"""The command `/mcp` of a session: the rows of the tool `mcp_servers` for the user, and a server started by hand."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from tests.kit import session
from tests.mcp.hosting import configure, raw

from jaato.errors import ToolError
from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.runtime.user_commands import run_command


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
