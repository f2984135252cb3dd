"""Tools that are somebody else's: whoever offers them is asked what there is now, and what a tool takes."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from jaato.errors import ToolError
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Remote, Tool


async def met(catalog: Catalog) -> None:
    """Have those say what they offer who were never asked; programs may be started for it."""
    async with anyio.create_task_group() as tasks:
        for first in list(catalog.strangers.values()):
            tasks.start_soon(first)


async def renewed(catalog: Catalog) -> None:
    """Have everybody whose tools change asked what they offer now."""
    async with anyio.create_task_group() as tasks:
        for source in list(catalog.sources.values()):
            tasks.start_soon(source)


async def completed(tools: Iterable[Tool]) -> dict[str, ToolError]:
    """Have tools that were known by name only learn their parameters; those of one place are asked for together.

    Gives what went wrong with those that cannot be described, by name.
    """
    groups: dict[object, tuple[Remote, list[Tool]]] = {}
    for tool in tools:
        if tool.remote is not None:
            groups.setdefault(tool.remote.kin, (tool.remote, []))[1].append(tool)
    failed: dict[str, ToolError] = {}

    async def complete(remote: Remote, group: list[Tool]) -> None:
        failed.update(await remote.complete_all(group))

    async with anyio.create_task_group() as tasks:
        for remote, group in groups.values():
            tasks.start_soon(complete, remote, group)
    return failed
