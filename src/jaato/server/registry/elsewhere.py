"""Tools of others on the shelf: who is asked before a request is answered, and what is answered where they cannot say."""

from __future__ import annotations

from collections.abc import Collection

from jaato.server.mcp.offer import Offer
from jaato.server.onward import Onward
from jaato.server.registry.registered.handlers import DOMAIN
from jaato.server.registry.request import Pending, Route
from jaato.server.registry.responses import NOT_STORED, Answer, error_for, refusing
from jaato.server.registry.shelf import Shelf
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

ASKED = frozenset(("list", "tool"))
"""Pages that others may have to be asked for."""
BROKERS = frozenset(("arp", "mcp"))
"""Plugins whose own tools are about those whose tools they bring."""


def is_for_others(tool: Tool, named: Collection[str], only: Collection[str] = ()) -> bool:
    """Whether a tool is served: what looks after registries and MCP servers is for agents of this machine, and for others
    where it is `named`. Where there are some that are served `only`, it is one of them."""
    if only and tool.name not in only:
        return False
    if tool.plugin not in BROKERS or tool.name in named:
        return True
    from jaato.plugins.arp.plugin import own_names

    return tool.name not in own_names()


class Followed:
    """What of a catalogue is on the shelf, so that it follows where tools come and go."""

    def __init__(self, catalog: Catalog, offer: Offer) -> None:
        self._catalog = catalog
        self._offer = offer
        self._tools = self._now()
        self.changed = False

    def _now(self) -> dict[str, Tool]:
        """The tools that are served, but for those that were put here: the shelf has all their versions, the catalogue one."""
        return {
            tool.name: tool for tool in self._catalog if tool.plugin != DOMAIN and self._offer.scope(tool)
        }

    def note(self) -> None:
        """There are other tools; from any thread."""
        self.changed = True

    def on(self, shelf: Shelf) -> Shelf:
        """A shelf with what is in the catalogue now, and with all that was put there otherwise."""
        self.changed = False
        before, now = self._tools, self._now()
        self._tools = now
        gone = {name: tool for name, tool in before.items() if now.get(name) is not tool}
        new = [tool for name, tool in now.items() if shelf.find(name, tool.version) is not tool]
        return shelf.exchanged(gone, new) if gone or new else shelf


def is_elsewhere(onward: Onward, shelf: Shelf, route: Route) -> bool:
    """Whether others have to be asked before a page can be given."""
    if not onward or route.kind not in ASKED:
        return False
    tool = shelf.tools.get(route.name)
    return tool is None or tool.remote is not None


async def asked(onward: Onward, shelf: Shelf, pending: Pending) -> None:
    """Have everybody asked of whom what is known is old, where a request is about what is not here, or about everything. Who
    ends calls waits for nobody."""
    if pending.route.kind != "cancel" and pending.route.name not in shelf.tools:
        await onward.renew(pending.request.header(b"via") or b"")


async def whole(onward: Onward, shelf: Shelf, pending: Pending) -> Shelf | Answer:
    """The shelf, on which everything is whole that is asked for; else what is answered in its place."""
    tool = shelf.tools.get(pending.route.name)
    if tool is None or tool.remote is None:
        return shelf
    problem = (await onward.failing([tool])).get(tool.name)
    return shelf if problem is None else refusing(error_for(problem, pending.id.decode("ascii")), NOT_STORED)
