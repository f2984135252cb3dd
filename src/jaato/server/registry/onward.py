"""Tools of others that are served on: who is asked before a request is answered, and what is said when they cannot be."""

from __future__ import annotations

from jaato.errors import ToolError
from jaato.protocol.messages import Problem
from jaato.tools.call import problem_of
from jaato.tools.catalog import Catalog
from jaato.tools.others import met, renewed
from jaato.tools.tool import Tool

MAX_MARKS = 16
"""Servers that tools are said to have come through; a longer way is no circle that anybody could make by mistake."""


class Onward:
    """Others from whom the tools of a catalogue come. Each is asked within bounds, and not before what is known of it is old."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._catalog.sources)

    async def begin(self) -> None:
        """Have everybody say what there is; programs may be started for it."""
        await met(self._catalog)
        await renewed(self._catalog)

    async def renew(self) -> None:
        """Have those asked of whom what is known is old."""
        await renewed(self._catalog)

    async def describe(self, tool: Tool) -> Problem | None:
        """Have a tool whole; else why it is not."""
        try:
            if tool.remote is not None:
                await tool.remote.complete(tool)
        except ToolError as error:
            return problem_of(error)
        return None

    @property
    def via(self) -> tuple[bytes, bytes]:
        """Through whom the tools have come (RFC 9110, 7.6.3), so that none of them asks for its own."""
        others = sorted({mark for marks in self._catalog.marks.values() for mark in marks})
        marks = [self._catalog.mark, *others][:MAX_MARKS]
        return b"via", ", ".join(f"1.1 jaato-{mark}" for mark in marks).encode("ascii")
