"""Sessions with settings and profiles as the program has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kit import call, plan, say
from tests.subagent.acts import change, look
from tests.subagent.cast import Cast

from jaato import settings
from jaato.agent.session import Session
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.tool import tool_from


def write(path: Path, name: str, profile: Any) -> Path:
    """A profile's file, of plain data or as it stands."""
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    match profile:
        case bytes():
            file.write_bytes(profile)
        case str():
            file.write_text(profile)
        case _:
            file.write_text(json.dumps(profile))
    return file


def with_settings(path: Path, **environ: str) -> Runtime:
    """A runtime as the program has one: with settings, state and configuration below `path`."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    variables = {"HOME": str(path), "PATH": "/usr/bin:/bin", **environ}
    found = settings.load(environ=variables, workspace=workspace)
    registry = PluginRegistry(workspace=workspace, services={"environ": variables, "settings": found})
    for name in ("introspection", "subagent"):
        registry.expose_tool(name)
    registry.add_toolset(Toolset("test", None, tools=[tool_from(look, "test"), tool_from(change, "test")]))
    return Runtime(SqliteStore(path / "state.db"), registry)


async def played(path: Path, scripts: dict[str, Any], **environ: str) -> Session:
    """The session after one turn."""
    runtime = with_settings(path, **environ)
    try:
        async with runtime.create(plan(path, [], provider=Cast(scripts), deferred=False)) as live:
            await live.post("go")
            return live
    finally:
        runtime.close()


def home(path: Path) -> Path:
    """The user's profiles."""
    return path / ".config" / "jaato" / "profiles"


def brought(path: Path) -> Path:
    """The workspace's profiles."""
    return path / "work" / ".jaato" / "profiles"


def delegating(**arguments: Any) -> dict[str, Any]:
    """One task, and calls of both tools by whoever does it."""
    return {
        "main": [call("delegate", task="x", **arguments), say("done")],
        "anyone": [call("look"), call("change"), say("did")],
    }
