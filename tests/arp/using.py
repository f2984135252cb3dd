"""What tests of the plugin share: a user with registries configured, and sessions that may use their tools."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kit import plan

from jaato import settings
from jaato.agent.journal import Journal
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.plugins.arp.directory import Directory
from jaato.protocol.ids import new_id
from jaato.providers.scripted import Answer
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.runtime import Runtime
from jaato.storage.sqlite import SqliteStore
from jaato.tools.call import Call, Output
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.remote.sources import SourceContext


def configure(path: Path, scope: str = "user", **registries: Any) -> Path:
    """A `registries.json`; a text stands for the URL of a registry."""
    file = path / (".config/jaato" if scope == "user" else "work/.jaato") / "registries.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    entries = {
        name: {"url": entry} if isinstance(entry, str) else entry for name, entry in registries.items()
    }
    file.write_text(json.dumps({"registries": entries}))
    return file


def plugins(path: Path, **environ: str) -> PluginRegistry:
    """The plugins of that user that are about registries, as a program that starts has them."""
    (path / "work").mkdir(exist_ok=True)
    given = {"PATH": "/usr/bin:/bin", "HOME": str(path), **environ}
    services = {"environ": given, "settings": settings.load(environ=given), "secrets": Redactor()}
    made = PluginRegistry(workspace=path / "work", services=services)
    for name in ("introspection", "arp"):
        made.expose_tool(name)
    return made


@asynccontextmanager
async def session(
    path: Path,
    script: Sequence[Answer],
    environ: Mapping[str, str] | None = None,
    resume: str | None = None,
    **more: Any,
) -> AsyncIterator[Session]:
    """A session of that user that plays a script: a new one, or a stored one as another process would open it."""
    registry = plugins(path, **(environ or {}))
    runtime = Runtime(
        SqliteStore(path / "state" / "jaato.db"), registry, secrets=registry.services["secrets"]
    )
    try:
        if resume is None:
            made = runtime.create(plan(path, script, **more))
        else:
            journal = Journal(runtime.store, State())
            journal.load(resume)
            made = runtime.open(journal, plan(path, script, **more))
        async with made as live:
            yield live
    finally:
        runtime.close()


def directory(path: Path, *, allow_hosts: Sequence[str] = (), **environ: str) -> Directory:
    """The registries of that user."""
    (path / "work").mkdir(exist_ok=True)
    config_dir, state_dir = path / ".config" / "jaato", path / ".local" / "state" / "jaato"
    return Directory(
        SourceContext(
            path / "work",
            path,
            config_dir,
            state_dir,
            path / ".cache" / "jaato",
            environ,
            tuple(allow_hosts),
        )
    )


async def use(made: PluginRegistry, name: str, **arguments: Any) -> Any:
    """What a tool gives that was found and described before, its structured data where it has some."""
    found = made.catalog.find(name)
    assert found is not None, [tool.name for tool in made.catalog]
    if found.tool.remote is not None:
        await found.tool.remote.complete(found.tool)
    value = found.tool.run(arguments, Call(new_id("c"), name, arguments, session_id="s-1", turn_id="t-1"))
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, Output):
        return value.text if value.structured is None else value.structured
    return value


async def offered(made: PluginRegistry) -> list[str]:
    """The names of the registries' tools, after every registry was asked that has to be."""
    for source in made.catalog.sources.values():
        await source()
    return sorted(tool.name for tool in made.catalog if tool.remote is not None)
