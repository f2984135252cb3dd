"""The keys that servers are given: in no log, no error and no result that a model or a file gets to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from tests.kit import call, plan, results, say
from tests.mcp.hosting import configure, raw

from jaato import settings
from jaato.plugins.mcp.pool import SERVER_POOL
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.redaction.redactor import Redactor

KEY, TOKEN = "k3y-4f9c2a7be1d05583", "t0ken-9d1e77aa43c0b6f2"


def masking(path: Path) -> Runtime:
    """A runtime whose sessions and plugins share what is secret, as those of a program do."""
    (path / "work").mkdir()
    secrets = Redactor()
    environ = {"PATH": settings.environment()["PATH"], "HOME": str(path)}
    registry = PluginRegistry(workspace=path / "work", services={"environ": environ, "secrets": secrets})
    for name in ("introspection", "mcp"):
        registry.expose_tool(name)
    made = Runtime(SqliteStore(path / "state" / "jaato.db"), registry)
    made.secrets = secrets
    return made


def test_keys_in_an_entry_are_masked(tmp_path: Path) -> None:
    """A key that stands in an entry itself, not in the environment, is masked in what its server answers, in what it
    prints as errors, and in the log that is kept of it."""
    given = {"env": {"SHOP_API_KEY": KEY, "SHOP_TOKEN": TOKEN, "COLOR": "dark-blue-4711"}}
    servers = {"env": raw("environ", **given), "bad": raw("exit-told", **given)}
    configure(tmp_path, servers)
    made = masking(tmp_path)

    async def main() -> list[Any]:
        steps = [
            call("get_tool_schemas", names=["mcp_connect", "call_mcp_tool"]),
            call("mcp_connect", server="env"),
            call("call_mcp_tool", server="env", tool="echo", args={"text": "x"}),
            call("mcp_connect", server="bad"),
            say("done"),
        ]
        try:
            async with made.create(plan(tmp_path, steps)) as live:
                await live.post("go")
                return results(live)[2:]
        finally:
            made.close()
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    answered, failed = anyio.run(main)
    assert answered.ok
    assert "dark-blue-4711" in str(answered)
    assert "my key is" in failed.error.message
    assert KEY not in str(answered) + str(failed)
    assert TOKEN not in str(answered) + str(failed)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".mcp.json"]
    assert any(b"my key is" in content for content in kept)
    assert not any(KEY.encode() in content or TOKEN.encode() in content for content in kept)
