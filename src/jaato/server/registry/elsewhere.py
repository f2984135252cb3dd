"""Tools of others on the shelf: who is asked before a request is answered, and what is answered where they cannot say."""

from __future__ import annotations

from jaato.server.onward import Onward
from jaato.server.registry.answers import Answer, error_for, refusing
from jaato.server.registry.request import Pending, Route
from jaato.server.registry.shelf import Shelf
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

STORED = (b"cache-control", b"no-store")


class Kept:
    """What of a catalogue is on the shelf, so that it follows where tools come and go."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tools = {tool.name: tool for tool in catalog}
        self.changed = False

    def note(self) -> None:
        """There are other tools; from any thread."""
        self.changed = True

    def followed(self, shelf: Shelf) -> Shelf:
        """A shelf with what is in the catalogue now, and with all that was put there otherwise."""
        self.changed = False
        before, now = self._tools, {tool.name: tool for tool in self._catalog}
        self._tools = now
        gone = {name: tool for name, tool in before.items() if now.get(name) is not tool}
        return shelf.exchanged(gone, [tool for name, tool in now.items() if before.get(name) is not tool])


def is_elsewhere(shelf: Shelf, route: Route) -> bool:
    """Whether others have to be asked before a page can be given."""
    tool = shelf.tools.get(route.name)
    return tool is None or tool.remote is not None


async def asked(onward: Onward, pending: Pending) -> None:
    """Have everybody asked of whom what is known is old."""
    await onward.renew(pending.request.header(b"via") or b"")


async def described(onward: Onward, tool: Tool, pending: Pending) -> Answer | None:
    """Have a tool whole; else what is answered in its place."""
    problem = await onward.describe(tool)
    if problem is None:
        return None
    return refusing(error_for(problem, pending.id.decode("ascii")), STORED)
