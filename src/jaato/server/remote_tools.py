"""Tools of others that are served on: who is asked before a request is answered, and what is said when they cannot be."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from jaato.protocol.messages import Problem
from jaato.tools.call import problem_of
from jaato.tools.catalog import Catalog
from jaato.tools.remote.refresh import (
    THROUGH,
    connect_unvisited,
    load_schemas,
    marks_in,
    refresh_tools,
    via_of,
)
from jaato.tools.tool import Tool


class Onward:
    """Others from whom the tools of a catalogue come. Each is asked within bounds, and not before what is known of it is old."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._beginning = anyio.Lock()
        self._begun = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._catalog.sources)

    async def begin(self) -> None:
        """Have everybody say what there is, once; programs may be started for it."""
        async with self._beginning:
            if not self._begun:
                await connect_unvisited(self._catalog)
                await self.renew()
                self._begun = True

    async def renew(self, via: bytes = b"") -> None:
        """Have those asked of whom what is known is old, for a request that came this way; nobody for our own."""
        through = marks_in(via.decode("latin-1"))
        if self._catalog.mark in through:
            return
        token = THROUGH.set((self._catalog.mark, *through))
        try:
            await refresh_tools(self._catalog)
        finally:
            THROUGH.reset(token)

    async def failing(self, tools: Iterable[Tool]) -> dict[str, Problem]:
        """Have these tools whole; what went wrong with those that are not, by name."""
        failed = await load_schemas(tools)
        return {name: problem_of(error) for name, error in failed.items()}

    async def described(self, tools: Iterable[Tool]) -> list[Tool]:
        """Those of these tools that are whole, once everybody was asked for theirs."""
        tools = list(tools)
        failed = await load_schemas(tools)
        return [tool for tool in tools if tool.name not in failed]

    @property
    def via(self) -> tuple[bytes, bytes]:
        """Through whom the tools have come, so that none of them takes its own for another's."""
        others = sorted({mark for marks in self._catalog.marks.values() for mark in marks})
        return b"via", via_of([self._catalog.mark, *others]).encode("ascii")
