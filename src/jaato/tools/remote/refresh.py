"""Refresh the tools of remote sources: connect those not yet visited, ask for changes, load schemas lazily."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any

import anyio

from jaato.errors import ToolError
from jaato.lazy_pattern import lazy_pattern
from jaato.tools.catalog import Catalog
from jaato.tools.tool import RemoteTool, Tool

THROUGH: ContextVar[tuple[str, ...]] = ContextVar("jaato_through", default=())
"""The marks of the servers that this request came through, so that none is asked for its own tools."""
INVOCATION = "invocation"
"""The service by which a tool finds the `context` and `trace` that a call over a registry came with."""
START_WITHIN_S = 30.0
"""How long a remote server may take to list its tools for the first time."""
MAX_MARKS = 16
"""The most servers in a chain of tools; a longer one cannot occur by mistake."""
MARK = lazy_pattern(r"\bjaato-([0-9a-f]{16})\b")


def via_of(marks: Iterable[str]) -> str:
    """Marks as the header `Via` has them (RFC 9110, 7.6.3)."""
    return ", ".join(f"1.1 jaato-{mark}" for mark in list(marks)[:MAX_MARKS])


def marks_in(via: str) -> tuple[str, ...]:
    """The marks in such a header."""
    return tuple(MARK.findall(via[:2_000]))


async def connect_unvisited(catalog: Catalog, within_s: float) -> dict[str, str]:
    """Connect the remote servers that never listed their tools; programs may be started for it. Returns the servers that
    have not listed them after `within_s` seconds: with the failure, once, or empty for those that continue in the
    background."""
    missing: dict[str, str] = {}

    async def connect(source: Callable[[float], Coroutine[Any, Any, dict[str, str]]]) -> None:
        missing.update(await source(within_s))

    async with anyio.create_task_group() as tasks:
        for source in list(catalog.unvisited.values()):
            tasks.start_soon(connect, source)
    return missing


async def refresh_tools(catalog: Catalog) -> None:
    """Refresh the tools of all sources whose tools change."""
    async with anyio.create_task_group() as tasks:
        for source in list(catalog.sources.values()):
            tasks.start_soon(source)


async def load_schemas(tools: Iterable[Tool]) -> dict[str, ToolError]:
    """Load the parameters of tools that are known by name only; those of one source are requested together.

    Gives the errors of those that could not be loaded, by name.
    """
    groups: dict[object, tuple[RemoteTool, list[Tool]]] = {}
    for tool in tools:
        if tool.remote is not None:
            groups.setdefault(tool.remote.batch_key, (tool.remote, []))[1].append(tool)
    failed: dict[str, ToolError] = {}

    async def complete(remote: RemoteTool, group: list[Tool]) -> None:
        failed.update(await remote.complete_all(group))

    async with anyio.create_task_group() as tasks:
        for remote, group in groups.values():
            tasks.start_soon(complete, remote, group)
    return failed
