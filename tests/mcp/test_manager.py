"""The documented face for programs without an event loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mcp.hosting import configure, processes, raw

from jaato import settings
from jaato.plugins.mcp.errors import ServerRefusal, ServerUnusable
from jaato.plugins.mcp.manager import MCPClientManager
from jaato.plugins.mcp.pool import SERVER_POOL


@pytest.mark.spec("S3", "MCPToolPlugin")
def test_a_program_without_a_loop_calls_tools(tmp_path: Path) -> None:
    """Servers start when first used, answer plain calls, and end with the manager."""
    mark = f"--{tmp_path.name}-manager"
    configure(tmp_path, {"raw": raw("fine", mark), "sad": raw("is-error")})
    environ = {"HOME": str(tmp_path), "PATH": settings.environment()["PATH"]}
    try:
        with MCPClientManager(tmp_path, environ=environ) as manager:
            assert manager.list_servers() == {"raw": "configured", "sad": "configured"}
            assert [entry.name for entry in manager.list_tools("raw")] == ["echo"]
            assert manager.call_tool("raw", "echo", {"text": "hi"}).text == "hi"
            assert manager.list_servers()["raw"] == "started"
            with pytest.raises(ServerRefusal, match="disk on fire"):
                manager.call_tool("sad", "echo", {"text": "hi"})
            with pytest.raises(ServerUnusable, match="no tool 'nothing'"):
                manager.call_tool("raw", "nothing")
            with pytest.raises(ServerUnusable, match="There is no MCP server 'rav'"):
                manager.connect("rav")
    finally:
        SERVER_POOL.close()
    assert not processes(mark)
