"""Tools of others on the shelf: who is asked before a request is answered, and what is answered where they cannot say."""

from __future__ import annotations

from jaato.server.onward import Onward
from jaato.server.registry.answers import Answer, error_for, refusing
from jaato.server.registry.request import Pending, Route
from jaato.server.registry.shelf import Shelf
from jaato.tools.catalog import Catalog

STORED = (b"cache-control", b"no-store")
ASKED = frozenset(("list", "tool"))
"""Pages that others may have to be asked for."""


class Followed:
    """What of a catalogue is on the shelf, so that it follows where tools come and go."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tools = {tool.name: tool for tool in catalog}
        self.changed = False

    def note(self) -> None:
        """There are other tools; from any thread."""
        self.changed = True

    def on(self, shelf: Shelf) -> Shelf:
        """A shelf with what is in the catalogue now, and with all that was put there otherwise."""
        self.changed = False
        before, now = self._tools, {tool.name: tool for tool in self._catalog}
        self._tools = now
        gone = {name: tool for name, tool in before.items() if now.get(name) is not tool}
        return shelf.exchanged(gone, [tool for name, tool in now.items() if before.get(name) is not tool])


def is_elsewhere(onward: Onward, shelf: Shelf, route: Route) -> bool:
    """Whether others have to be asked before a page can be given."""
    if not onward or route.kind not in ASKED:
        return False
    tool = shelf.tools.get(route.name)
    return tool is None or tool.remote is not None


async def asked(onward: Onward, shelf: Shelf, pending: Pending) -> None:
    """Have everybody asked of whom what is known is old, where a request is about what is not here, or about everything."""
    if onward and pending.route.name not in shelf.tools:
        await onward.renew(pending.request.header(b"via") or b"")


async def described(onward: Onward, shelf: Shelf, pending: Pending) -> Answer | None:
    """Have the tool of a definition whole; else what is answered in its place."""
    tool = shelf.tools.get(pending.route.name)
    if pending.route.kind != "tool" or tool is None or tool.remote is None:
        return None
    problem = (await onward.failing([tool])).get(tool.name)
    return None if problem is None else refusing(error_for(problem, pending.id.decode("ascii")), STORED)
