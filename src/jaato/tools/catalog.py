"""The catalog of all known tools, from plugins and remote sources; a session decides which are active."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ReferenceType, ref

import msgspec

from jaato.errors import PluginError
from jaato.protocol.specs import ToolSpec
from jaato.tools.search.embeddings import EmbeddingIndex, ToolView, combine_scores
from jaato.tools.tool import WIRE_NAME, Rename, Tool

if TYPE_CHECKING:
    from jaato.tools.search.bm25 import Bm25Index

MAX_DECLARED = 24
"""So many chosen tools, or tools of a server that the program gave, are declared from the start; more are found by search."""
MAX_SIMILAR = 3
CATEGORY_TEXTS = {
    "system": "commands, environment, discovery",
    "filesystem": "read, write, move and find files",
    "search": "search in code, text and the web",
    "web": "fetch pages and call HTTP services",
    "coordination": "plans, subagents, background tasks, waypoints",
    "communication": "ask the user",
    "memory": "templates and notes that last",
    "knowledge": "reference documents",
    "code": "language servers, notebooks, calculation",
    "data": "SQLite, CSV, JSON, YAML and TOML files",
    "git": "status, history and differences of repositories",
    "MCP": "tools of connected MCP servers",
    "registry": "tools of remote registries",
    "prompt": "stored prompts",
    "skill": "written instructions for kinds of work",
    "uncategorized": "tools without a category",
}


class ToolMatch(NamedTuple):
    """A tool by one of its names, and how the arguments of that spelling are renamed."""

    tool: Tool
    rename: Rename


def wire_name(name: str) -> str:
    """A name every provider takes: itself if it can be, else mangled with eight hex digits of its SHA-256."""
    if WIRE_NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
    return f"{plain[:55]}_{digest}"


def other_names(tool: Tool) -> list[str]:
    """The names a tool is found by beside its own; a tool of that very name comes before them."""
    return list(tool.aliases) if tool.original_name is None else [*tool.aliases, tool.original_name]


def claim_name(name: str, tool: Tool, taken: Tool | None) -> None:
    """Raise `PluginError` when another tool has the name already."""
    if taken is not None and taken is not tool:
        raise PluginError(
            f"Two plugins offer the tool {name!r}: {taken.plugin or 'the program'} and "
            f"{tool.plugin or 'the program'}. Disable one of them."
        )


class NameAllocator:
    """Assigns names to a set of tools. A tool with a fallback name (a remote one) takes that when another tool has its name,
    and is left out when both are taken, so that it never displaces a local tool."""

    def __init__(self, tools: dict[str, Tool], others: dict[str, ToolMatch]) -> None:
        self.tools = tools
        self.others = others
        self.renamed: list[tuple[Tool, str]] = []

    def take(self, tool: Tool) -> None:
        """Give a tool its names. Raises `PluginError` when one is taken."""
        name = self._name_for(tool)
        if name is None:
            return
        if name != tool.spec.name:
            self.renamed.append((tool, name))
        claim_name(name, tool, self.tools.get(name))
        self.tools[name] = tool
        for other in other_names(tool):
            rival = self.tools.get(other)
            if rival is not None and rival is not tool:
                self._send_away(rival, other)
            claim_name(other, tool, self.others[other].tool if other in self.others else None)
            self.others.setdefault(other, ToolMatch(tool, tool.aliases.get(other, {})))

    def _name_for(self, tool: Tool) -> str | None:
        """Under which name a tool can be known; None for none."""
        name = tool.spec.name
        rival = self.tools.get(name)
        if rival is None or rival is tool:
            return name if tool.fallback is None or name not in self.others else self._spare(tool, name)
        if rival.fallback is not None and (tool.fallback is None or rival.fallback != name):
            self._send_away(rival, name)
            if tool.fallback in (None, name):
                return name
        return name if tool.fallback is None else self._spare(tool, name)

    def _send_away(self, rival: Tool, name: str) -> None:
        """Move a tool with a fallback name to that name."""
        if rival.fallback is None:
            return
        del self.tools[name]
        spare = self._spare(rival, name)
        if spare is not None:
            self.tools[spare] = rival
            self.renamed.append((rival, spare))

    def _spare(self, tool: Tool, name: str) -> str | None:
        """The fallback of a tool that loses this name, where that is free."""
        spare = tool.fallback
        return None if spare in (None, name) or spare in self.tools or spare in self.others else spare

    def settle(self) -> None:
        """Write the assigned names into the tools."""
        for tool, name in self.renamed:
            tool.spec = msgspec.structs.replace(tool.spec, name=name)


class CatalogSnapshot:
    """Counts and core tools of an immutable set of tools, computed once."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        self.tools = tools
        self.categories = dict(Counter(tool.spec.category for tool in tools.values()))
        self.core = [tool for tool in tools.values() if tool.spec.discoverability == "core"]


class Catalog:
    """Tools by name and alias, counted by category, searchable; nothing here grows with the number of calls.

    With `meaning` a search goes by what words mean too, once it has read the tools.
    """

    def __init__(self, meaning: EmbeddingIndex | None = None) -> None:
        self.meaning = meaning
        self.sources: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        """Refreshes the tools of remote servers before a search, by plugin; bounded in time, never raises."""
        self.unvisited: dict[str, Callable[[float], Coroutine[Any, Any, dict[str, str]]]] = {}
        """Connects remote servers that never listed their tools, by plugin; may start programs. Waits for so many seconds,
        returns the servers that have not listed them, each with its failure, empty while it starts; never raises."""
        self.mark = os.urandom(8).hex()
        """By what a server knows that tools came from itself, in a circle of servers."""
        self.marks: dict[str, frozenset[str]] = {}
        """The marks of whom tools come from, by plugin."""
        self._parts: list[tuple[ReferenceType[Catalog], frozenset[str]]] = []
        self._view: ToolView | None = None
        self._tools: dict[str, Tool] = {}
        self._other_names: dict[str, ToolMatch] = {}
        self._counted = CatalogSnapshot(self._tools)
        self._changing = threading.Lock()
        self._reading = threading.Lock()
        """Held while the index is brought up to date and read; never while anything else is waited for."""
        self._index: Bm25Index | None = None
        self._indexed = True
        self._known = self._tools
        """The tools as they were when the index was last brought up to date."""

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    @property
    def core(self) -> list[Tool]:
        """The tools declared from the start, in the order they were added."""
        return self.snapshot.core

    @property
    def categories(self) -> dict[str, int]:
        """How many tools each category has."""
        return self.snapshot.categories

    @property
    def snapshot(self) -> CatalogSnapshot:
        """The tools of this moment, counted once; another object after each change."""
        counted = self._counted
        if counted.tools is not self._tools:
            counted = self._counted = CatalogSnapshot(self._tools)
        return counted

    def add(self, tools: Iterable[Tool]) -> None:
        """Make tools known, all or none. Raises `PluginError` when a name is taken, naming both owners."""
        self.exchange((), tools)

    def remove(self, tools: Iterable[Tool]) -> None:
        """Forget tools."""
        self.exchange(tools, ())

    def exchange(self, old: Iterable[Tool], new: Iterable[Tool]) -> None:
        """Forget tools and make others known, all or none, at once for who looks from another thread. Raises as `add`."""
        with self._changing:
            tools, others = self._tools.copy(), self._other_names.copy()
            if gone := set(map(id, old)):
                tools = {name: tool for name, tool in tools.items() if id(tool) not in gone}
                others = {name: found for name, found in others.items() if id(found.tool) not in gone}
            claims = NameAllocator(tools, others)
            for tool in new:
                claims.take(tool)
            claims.settle()
            self._tools, self._other_names = tools, others
            self._indexed = False

    def part(self, plugins: frozenset[str]) -> Catalog:
        """A catalogue, empty yet, for the tools of these plugins alone."""
        made = Catalog(self.meaning)
        made.sources = {name: source for name, source in self.sources.items() if name in plugins}
        made.unvisited = {name: source for name, source in self.unvisited.items() if name in plugins}
        self._parts = [*(one for one in self._parts if one[0]() is not None), (ref(made), plugins)]
        return made

    def parts_with(self, plugin: str) -> list[Catalog]:
        """The catalogues in use that have the tools of this plugin and not all there are."""
        return [part for kept, plugins in self._parts if plugin in plugins and (part := kept()) is not None]

    def find(self, name: str) -> ToolMatch | None:
        """The tool of this name, alias or original name."""
        tool = self._tools.get(name)
        return ToolMatch(tool, {}) if tool is not None else self._other_names.get(name)

    def in_category(self, category: str) -> list[Tool]:
        """The tools of one category, in the order they were added."""
        return [tool for tool in self._tools.values() if tool.spec.category == category]

    def search(self, query: str, limit: int = 10) -> list[tuple[ToolSpec, float]]:
        """The best tools for a request, with scores from 0 to 1; an original name finds its tool."""
        from jaato.tools.search.bm25 import Bm25Index, best_scores  # many prompts look for no tool

        with self._reading:
            index = self._index = self._index or Bm25Index()
            if not self._indexed:
                self._indexed = True
                self._known = self._tools
                specs = [tool.spec for tool in self._known.values()]
                index.update(specs)
                if self._view is not None:
                    self._view.dropped = True
                self._view = ToolView(specs) if self.meaning is not None else None
            scores, known, view = index.scores(query), self._known, self._view
        if self.meaning is not None and view is not None:
            scores = combine_scores(scores, self.meaning.scores(query, view))
        ranked = [(known[name].spec, score) for name, score in best_scores(scores, limit)]
        exact = self.find(query.strip())
        if exact is not None:
            ranked = [(exact.tool.spec, 1.0), *(row for row in ranked if row[0].name != exact.tool.name)]
        return ranked[: max(0, limit)]

    def await_meaning(self, timeout_s: float) -> bool:
        """Wait until a search goes by meaning too: begins the work; False when it cannot, or not in this time."""
        self.search("", 0)
        if self.meaning is None or self._view is None:
            return False
        return self.meaning.await_view(self._view, timeout_s)

    def similar(self, name: str) -> list[str]:
        """Names like one that is not known."""
        import difflib

        known = [*self._tools, *self._other_names]
        close = difflib.get_close_matches(name, known[:5000], MAX_SIMILAR, 0.6)
        return list(dict.fromkeys(close + [spec.name for spec, _ in self.search(name, MAX_SIMILAR)]))[
            :MAX_SIMILAR
        ]
