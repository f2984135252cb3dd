"""What tests of the host share: a home with servers configured, a host over it, and what is left afterwards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from jaato import settings
from jaato.plugins.mcp.config import FILE, ServerConfig
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
from jaato.tools.call import Call
from jaato.tools.remote.sources import LoadedSources, SourceContext, load_sources

SERVERS = Path(__file__).parent / "servers"
RAW = str(SERVERS / "raw.py")


def raw(*arguments: str, **more: Any) -> dict[str, Any]:
    """An entry for the server written by hand."""
    return {"command": sys.executable, "args": [RAW, *arguments], **more}


def configure(home: Path, servers: dict[str, Any]) -> None:
    """The user's `.mcp.json`."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def places(path: Path, **environ: str) -> SourceContext:
    """Directories below `path`."""
    work = path / "work"
    work.mkdir(exist_ok=True)
    given = {"PATH": settings.environment()["PATH"], "HOME": str(path), **environ}
    return SourceContext(work, path, path / ".config/jaato", path / "state", path / "cache", given)


def load(work: Path, home: Path) -> LoadedSources[ServerConfig]:
    """Both files, as they are read."""
    return load_sources(ServerConfig, home / FILE, work, work / FILE)


def hosted(
    path: Path,
    servers: dict[str, Any],
    talk: Callable[[SessionServers], Awaitable[Any]],
    *,
    heard: list[str] | None = None,
    **environ: str,
) -> Any:
    """What comes of a talk with these servers; afterwards none of them is left."""
    configure(path, servers)
    heard = [] if heard is None else heard

    async def main() -> Any:
        host = SessionServers(Directory(places(path, **environ)), heard.append)
        try:
            with anyio.fail_after(60):
                return await talk(host)
        finally:
            host.leave()
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    return anyio.run(main)


async def call(
    host: SessionServers, server: str, tool: str = "echo", *, call: Call | None = None, **arguments: Any
) -> Any:
    """Run a tool that the server is known to have."""
    config = host.directory.entry(server)
    judged = host.directory.review(config)
    if judged is None or not any(entry.name == tool for entry in judged.manifest.tools):
        await host.connect(server)
        judged = host.directory.review(config)
    assert judged is not None
    entry = next(entry for entry in judged.manifest.tools if entry.name == tool)
    return await host.call(server, entry, arguments, call or Call("c-1", "x", {}))


def processes(mark: str) -> list[str]:
    """The command lines of processes that carry this mark, our own excepted."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = (
                Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
        except OSError:
            continue
        if mark in line and int(number) != os.getpid():
            found.append(line)
    return found
