"""What a call through `jaato mcp serve` costs, beside a bare server of the SDK with the same tool, over real pipes."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from bench.row import Row
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from jaato.settings import environment

CALLS = 400
ROOT = Path(__file__).parents[1]

PLUGIN = '''
"""One tool."""
from jaato.abc.plugin import Plugin
from jaato.tools.tool import tool

PLUGIN_KIND = "tool"

class Echo(Plugin):
    """Says it again."""

    name = "echo"

    @tool(access="read", core=True)
    async def echo(self, text: str) -> str:
        """Say it again."""
        return text
'''

BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])

async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

anyio.run(main)
"""


def rows() -> Iterator[Row]:
    """The median call of each, and the time to the first answer."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        plugins = home / ".config" / "jaato" / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "echo.py").write_text(PLUGIN)
        (home / "bare.py").write_text(BARE)
        env = {"HOME": folder, "PATH": environment()["PATH"], "PYTHONPATH": str(ROOT / "src")}
        serve = ["-m", "jaato", "mcp", "serve", "--workspace", folder]
        bare_start_s, bare_ms = anyio.run(measured, [str(home / "bare.py")], env)
        start_s, ours_ms = anyio.run(measured, serve, env)
    yield Row(
        "MCP server: a call over stdio, judged, logged and run, p50",
        ours_ms,
        "ms",
        None,
        f"bare SDK {bare_ms:.2f} ms",
    )
    yield Row(
        "MCP server: from start to the first list of tools",
        start_s,
        "s",
        None,
        f"bare SDK {bare_start_s:.2f} s",
    )


async def measured(words: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds until the first answer, and milliseconds of the median call."""
    begun = time.perf_counter()
    parameters = StdioServerParameters(command=sys.executable, args=words, env=env)
    async with Client(stdio_client(parameters), mode="legacy") as client:
        await client.list_tools()
        started_s = time.perf_counter() - begun
        times: list[float] = []
        for number in range(CALLS):
            before = time.perf_counter()
            result = await client.call_tool("echo", {"text": f"text {number}"})
            times.append(time.perf_counter() - before)
            assert not result.is_error
    return started_s, statistics.median(times) * 1_000
