"""Search among the tools that are served, by the catalogue's own; and what was found, kept while its pages are read."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping

from anyio import CapacityLimiter

from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

MAX_KEPT = 64
AT_ONCE = 2
"""Searches that are under way at the same time; the others wait, so that requests that need none are answered meanwhile."""


class Finder:
    """Ranks tools for a text. Safe to be used from any thread."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = Catalog(catalog.meaning)
        self.places = CapacityLimiter(AT_ONCE)
        self._lock = threading.Lock()
        self._known: Mapping[str, Tool] = {}
        self._stripped: dict[str, Tool] = {}
        self._kept: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()

    def ranked(self, tools: Mapping[str, Tool], text: str) -> tuple[str, ...]:
        """The names of those that have something of the text, the best first."""
        with self._lock:
            if tools is not self._known:
                self._exchange(tools)
                self._known = tools
        return tuple(spec.name for spec, _ in self._catalog.search(text, len(tools)) if spec.name in tools)

    def _exchange(self, tools: Mapping[str, Tool]) -> None:
        """Search among these from now on. What else a tool is called by is of no account: names are all different."""
        gone = {
            name: one
            for name, one in self._stripped.items()
            if name not in tools or tools[name].spec is not one.spec
        }
        come = {
            name: Tool(tool.spec, tool.run)
            for name, tool in tools.items()
            if name in gone or name not in self._stripped
        }
        self._catalog.exchange(gone.values(), come.values())
        self._stripped = {
            **{name: one for name, one in self._stripped.items() if name not in gone},
            **come,
        }

    def keep(self, text: str, names: tuple[str, ...]) -> str:
        """Keep what was found for a text, for the pages to come; gives by what it is found again."""
        key = hashlib.sha256("\0".join((text, *names)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        with self._lock:
            self._kept[key] = text, names
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return key

    def kept(self, text: str, key: str) -> tuple[str, ...] | None:
        """What was found for this text, if it is still here."""
        with self._lock:
            of, names = self._kept.get(key, ("", ()))
        return names if of == text else None
