"""What MCP costs: a call through the host, servers that come and go with sessions, and servers that are not used."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.row import Row
from bench.startup import cpu_s, environ_for, server

CALLS = 400
ROUNDS = 3
TURNS = 3
CYCLES = 200
RUNS = 15
PROGRAM = """
import json, sys
TOOL = {"name": "echo", "description": "Say something back.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    match m["method"]:
        case "initialize":
            told = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "b", "version": "1"}}
        case "tools/list":
            told = {"tools": [{**TOOL, "name": f"echo{n}"} for n in range(20)]}
        case "tools/call":
            told = {"content": [{"type": "text", "text": "x" * 200}]}
        case _:
            print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": told}), flush=True)
"""
ENTRY: dict[str, Any] = {"command": sys.executable, "args": ["-I", "-S", "-c", PROGRAM]}
BARE = "the SDK's own client, stdio, CPU of the client's process"


async def bare() -> float:
    """CPU seconds of a call through the SDK's client."""
    from mcp import Client, StdioServerParameters

    async with Client(StdioServerParameters(command=ENTRY["command"], args=ENTRY["args"])) as client:
        return await timed(lambda: client.call_tool("echo0", {"text": "hi"}))


async def hosted(home: Path) -> float:
    """CPU seconds of a call through the host."""
    from jaato.plugins.mcp.directory import Directory
    from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
    from jaato.tools.call import Call
    from jaato.tools.remote.sources import source_context

    work = home / "work"
    work.mkdir(exist_ok=True)
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": {"b": ENTRY}}))
    environ = {"PATH": os.defpath, "HOME": str(home)}
    host = SessionServers(Directory(source_context(work, environ)), lambda _name: None)
    manifest = await host.connect("b")
    call = Call("c", "mcp__b__echo0", {})
    entry = manifest.tools[0]
    try:
        return await timed(lambda: host.call("b", entry, {"text": "hi"}, call))
    finally:
        host.leave()
        await asyncio.to_thread(SERVER_POOL.close)


async def timed(once: Any) -> float:
    """The least CPU seconds of one call, over rounds of many."""
    for _ in range(50):
        await once()
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(CALLS):
            await once()
        best = min(best, (time.process_time() - begun) / CALLS)
    return best


def cycles(home: Path) -> tuple[int, int]:
    """Processes and descriptors that are left of sessions that came and went with three servers each."""
    from jaato.plugins.mcp.pool import SERVER_POOL
    from jaato.runtime.plugins.registry import PluginRegistry
    from jaato.tools.call import Call

    servers = {name: {**ENTRY, "env": {"MARK": str(home)}} for name in ("one", "two", "three")}
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    environ = {"PATH": os.defpath, "HOME": str(home)}

    async def once() -> None:
        registry = PluginRegistry(workspace=home, services={"environ": environ})
        registry.expose_tool("mcp")
        tools = [registry.catalog.find(f"mcp__{name}__echo0") for name in servers]
        if None in tools:
            for name in servers:
                connect = registry.catalog.find("mcp_connect")
                assert connect is not None
                await connect.tool.run({"server": name}, Call("c", "mcp_connect", {}))
        await asyncio.gather(
            *(found.tool.run({"text": "hi"}, Call("c", "x", {})) for found in tools if found)
        )
        registry.shutdown()

    asyncio.run(once())
    SERVER_POOL.close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))

    async def many() -> None:
        for _ in range(CYCLES):
            await once()

    asyncio.run(many())
    SERVER_POOL.close()
    gc.collect()
    return len(children()), len(os.listdir("/proc/self/fd")) - before


def children() -> list[int]:
    """The processes below this one."""
    parents: dict[int, int] = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(number)] = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [number for number, parent in parents.items() if parent == os.getpid()]


def unused() -> float:
    """The CPU of one `jaato run` with ten known servers that it does not use, over that of one without any."""
    with tempfile.TemporaryDirectory() as folder, server() as url:
        home = Path(folder)
        environ = environ_for(home, url)
        run = [sys.executable, "-m", "jaato", "run", "--model", "m", "say hi"]
        config = home / ".mcp.json"
        content = json.dumps(
            {"mcpServers": {f"server{n}": ENTRY | {"env": {"N": str(n)}} for n in range(10)}}
        )
        config.write_text(content)
        learn(home)
        cpu_s(run, environ, home)
        spent: dict[bool, list[float]] = {True: [], False: []}
        for number in range(2 * RUNS):
            if number % 2:
                config.write_text(content)
            else:
                config.unlink(missing_ok=True)
            spent[bool(number % 2)].append(cpu_s(run, environ, home)[0])
    return min(spent[True]) / min(spent[False])


def learn(home: Path) -> None:
    """Have every configured server known."""
    from jaato.plugins.mcp.directory import Directory
    from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
    from jaato.tools.remote.sources import source_context

    async def all_of_them() -> None:
        directory = Directory(source_context(home, {"PATH": os.defpath, "HOME": str(home)}))
        host = SessionServers(directory, lambda _name: None)
        for name in directory.sources:
            await host.connect(name)
        host.leave()

    asyncio.run(all_of_them())
    SERVER_POOL.close()


def rows() -> list[Row]:
    """The figures of MCP."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spent = [(asyncio.run(hosted(home)), asyncio.run(bare())) for _ in range(TURNS)]
        ratio = min(ours for ours, _ in spent) / min(theirs for _, theirs in spent)
        processes, descriptors = cycles(home)
    return [
        Row("an MCP call through the host", ratio, "times", 2.5, BARE),
        Row("processes left of 200 sessions with three servers", processes, "", 0, "none"),
        Row("descriptors left of 200 sessions with three servers", descriptors, "", 0, "none"),
        Row("one jaato run with ten known MCP servers", unused(), "times", 1.05, "one without, CPU"),
    ]
