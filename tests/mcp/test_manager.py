"""The documented face for programs without an event loop."""

from __future__ import annotations

import subprocess
import sys
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


FORKS = """
import gc, os, sys
from pathlib import Path
from jaato.plugins.mcp.manager import MCPClientManager
manager = MCPClientManager(Path(sys.argv[1]), environ=dict(os.environ, HOME=sys.argv[1]))
assert manager.call_tool("raw", "echo", {"text": "hi"}).text == "hi"

def fork():
    child = os.fork()
    if child == 0:
        gc.collect()
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5

fork()
assert manager.call_tool("raw", "echo", {"text": "hi"}).text == "hi"
manager.close()
fork()  # while its servers end
"""


def test_a_program_that_forks_while_servers_run(tmp_path: Path) -> None:
    """The forked process begins and ends without waiting for threads of its parent, whose servers run or are just ending."""
    mark = f"--{tmp_path.name}-forks"
    configure(tmp_path, {"raw": raw("fine", mark)})
    quiet = ("-W", "ignore::DeprecationWarning")  # since 3.12 a fork beside threads warns
    program = [sys.executable, *quiet, "-c", FORKS, str(tmp_path)]
    done = subprocess.run(program, timeout=60, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not processes(mark)
