"""The tools that a registry serves: versions, encoded definitions, visibility by key, and tools of remote sources."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import UNSET

from jaato.protocol.arp import SCHEMA_VERSION, ToolDefinition, ToolView
from jaato.protocol.codec import encode
from jaato.protocol.specs import ToolSpec
from jaato.server.registry.registered.handlers import DOMAIN
from jaato.server.registry.requests import PendingRequest, Route, Visibility
from jaato.server.registry.responses import NOT_STORED, Response, error_for, error_response
from jaato.server.tool_sessions import Offer, RemoteSources
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

NUMBER = r"(0|[1-9][0-9]{0,17})"
PART = r"(?:0|[1-9][0-9]{0,17}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMANTIC = re.compile(
    rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-({PART}(?:\.{PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""A semantic version (semver.org, 2.0.0): its three numbers, and what it is before; what it was built of does not count."""

Age = tuple[bool, tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], int]


def version_order(version: str, number: int) -> Age:
    """The sort key of a version, the newest last; `number` is the order of registration."""
    found = SEMANTIC.fullmatch(version)
    if found is None:
        return False, (), False, (), number
    before = found[4]
    parts = () if before is None else tuple(part_of(one) for one in before.split("."))
    return True, (int(found[1]), int(found[2]), int(found[3])), before is None, parts, number


def part_of(text: str) -> tuple[bool, int, str]:
    """The sort key of a part of a pre-release: numbers before words."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)


WORTH_BYTES = 1_400
"""Longer bodies are also offered compressed; shorter ones fit into one packet."""


LARGE_BYTES = 200_000
"""A page that is longer is compressed in a fifth of the time, and to a fifth more: everybody waits meanwhile."""


class Page:
    """An encoded body and its entity tag, which also depends on the headers in `beside`."""

    __slots__ = ("_packed", "body", "etag")

    def __init__(self, body: bytes, beside: bytes = b"") -> None:
        digest = hashlib.sha256(body)
        digest.update(beside)
        self.body = body
        self.etag = f'"{digest.hexdigest()[:32]}"'.encode()
        self._packed: bytes | None = None

    @property
    def gzipped(self) -> bytes | None:
        """The compressed body, if that is shorter; made lazily."""
        if len(self.body) <= WORTH_BYTES:
            return None
        if self._packed is None:
            packed = gzip.compress(self.body, 6 if len(self.body) < LARGE_BYTES else 1, mtime=0)
            self._packed = packed if len(packed) < len(self.body) else b""
        return self._packed or None

    @property
    def gzipped_etag(self) -> bytes:
        """The entity tag of the compressed body."""
        return self.etag[:-1] + b'-gzip"'


class ServedTool:
    """One version of a served tool; `number` is its order of registration. It is shared by successive `ServedTools`, so that
    its definition is encoded once."""

    __slots__ = ("_of", "_page", "number", "tool")

    def __init__(self, tool: Tool, number: int) -> None:
        self.tool = tool
        self.number = number
        self._page: Page | None = None
        self._of: ToolSpec | None = None

    @property
    def page(self) -> Page:
        """Its definition, made when first asked for, and again where the tool has learned to be another."""
        if self._page is None or self._of is not self.tool.spec:
            self._of = self.tool.spec
            self._page = Page(encode(definition_of(self.tool)))
        return self._page


class ToolVersions(NamedTuple):
    """The versions of one name, the newest first; `number` is that of the first registered, and the position in the list."""

    number: int
    versions: tuple[ServedTool, ...]

    @property
    def names(self) -> list[str]:
        """Which versions there are, the newest first."""
        return [one.tool.version for one in self.versions]

    def get(self, version: str | None) -> ServedTool | None:
        """The one of this version, None for the newest."""
        if version is None:
            return self.versions[0]
        return next((one for one in self.versions if one.tool.version == version), None)


class ServedTools:
    """An immutable snapshot of the served tools: a change makes another one, which shares the encoded definitions.

    `tools` has the newest version of each, in the order of the list. `slots` and `number` are those of the one before.
    """

    def __init__(
        self, tools: Iterable[Tool] = (), slots: Mapping[str, ToolVersions] | None = None, number: int = 0
    ) -> None:
        self._slots = dict(slots or {})
        self._next = number
        for tool in tools:
            self._put(tool)
        self.tools: Mapping[str, Tool] = {name: slot.versions[0].tool for name, slot in self._slots.items()}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Tool]:
        """Every version of every tool."""
        return (kept.tool for slot in self._slots.values() for kept in slot.versions)

    @cached_property
    def views(self) -> Page:
        """The whole list."""
        return Page(encode([ToolView(name, tool.spec.description) for name, tool in self.tools.items()]))

    @cached_property
    def total(self) -> bytes:
        """The number of tools as text."""
        return str(len(self._slots)).encode()

    def slot(self, name: str) -> ToolVersions | None:
        """The versions of a name."""
        return self._slots.get(name)

    def place(self, name: str) -> int:
        """The position of a tool in the list; positions of removed tools are not reused."""
        return self._slots[name].number

    def find(self, name: str, version: str | None = None) -> Tool | None:
        """The tool of this version, None for the newest."""
        kept = self._get_version(name, version)
        return None if kept is None else kept.tool

    def definition(self, name: str, version: str | None = None) -> Page | None:
        """The definition of this version, None for the newest."""
        kept = self._get_version(name, version)
        return None if kept is None else kept.page

    def _get_version(self, name: str, version: str | None) -> ServedTool | None:
        slot = self._slots.get(name)
        return None if slot is None else slot.get(version)

    def all_of(self, tool: Tool) -> list[Tool]:
        """Every version of a tool that is here, in the order they came; else this one alone."""
        slot = self._slots.get(tool.name)
        if slot is None or slot.versions[0].tool is not tool:
            return [tool]
        return [one.tool for one in sorted(slot.versions, key=lambda one: one.number)]

    def with_tools(self, tools: Iterable[Tool]) -> ServedTools:
        """The same with these tools, each of which replaces one of its name and version."""
        return ServedTools(tools, self._slots, self._next)

    def without(self, name: str, version: str | None = None) -> ServedTools:
        """The same without this version of a tool, None for all of them."""
        slot = self._slots.get(name)
        left = (
            ()
            if slot is None or version is None
            else tuple(one for one in slot.versions if one.tool.version != version)
        )
        if slot is None or len(left) == len(slot.versions):
            return self
        slots = dict(self._slots)
        if left:
            slots[name] = ToolVersions(slot.number, left)
        else:
            del slots[name]
        return ServedTools((), slots, self._next)

    def replace_tools(self, old: Mapping[str, Tool], new: Iterable[Tool]) -> ServedTools:
        """The same without these tools, by the names they had, and with the new ones."""
        slots = dict(self._slots)
        for name, tool in old.items():
            slot = slots.pop(name, None)
            left = () if slot is None else tuple(one for one in slot.versions if one.tool is not tool)
            if slot is not None and left:
                slots[name] = ToolVersions(slot.number, left)
        return ServedTools(new, slots, self._next)

    def select(self, has: Callable[[str], bool]) -> ServedTools:
        """The same with only the selected names."""
        return ServedTools((), {name: slot for name, slot in self._slots.items() if has(name)}, self._next)

    def _put(self, tool: Tool) -> None:
        kept = ServedTool(tool, self._next)
        self._next += 1
        slot = self._slots.get(tool.name)
        others = (
            () if slot is None else tuple(one for one in slot.versions if one.tool.version != tool.version)
        )
        versions = sorted(
            (*others, kept), key=lambda one: version_order(one.tool.version, one.number), reverse=True
        )
        self._slots[tool.name] = ToolVersions(kept.number if slot is None else slot.number, tuple(versions))


def definition_of(tool: Tool) -> ToolDefinition:
    """The definition of a tool; its parameters are those by which arguments are validated."""
    return ToolDefinition(
        schema_version=SCHEMA_VERSION,
        name=tool.name,
        description=tool.spec.description,
        version=tool.version,
        parameters=tool.checked if tool.checked is not None else tool.spec.parameters,
        returns=tool.returns if tool.returns is not None else UNSET,
        tags=list(tool.tags) if tool.tags else UNSET,
        source=source_of(tool),
    )


def source_of(tool: Tool) -> dict[str, Any]:
    """The source of a tool, and its access."""
    return {
        **tool.source,
        "registry": "jaato",
        "domain": tool.plugin or "program",
        "access": tool.spec.access,
    }


MOST = 64
"""visible tools of one set that are kept; the one made first makes room."""
MADE: WeakKeyDictionary[ServedTools, dict[Visibility, ServedTools]] = WeakKeyDictionary()


def visible_tools(served: ServedTools, visibility: Visibility | None) -> ServedTools:
    """The tools that are visible to a key, cached for all keys with the same patterns."""
    if visibility is None:
        return served
    made = MADE.setdefault(served, {})
    mine = made.get(visibility)
    if mine is None:
        while len(made) >= MOST:
            del made[next(iter(made))]
        mine = made[visibility] = served.select(visibility.has)
    return mine


ASKED = frozenset(("list", "tool"))
"""Routes for which remote sources may be asked."""
BROKERS = frozenset(("arp", "mcp"))
"""Plugins whose own tools are about those whose tools they bring."""


def is_served(tool: Tool, named: Collection[str], only: Collection[str] = ()) -> bool:
    """Whether a tool is served: what looks after registries and MCP servers is for agents of this machine, and for others
    where it is `named`. Where there are some that are served `only`, it is one of them."""
    if only and tool.name not in only:
        return False
    if tool.plugin not in BROKERS or tool.name in named:
        return True
    from jaato.plugins.arp.plugin import own_names

    return tool.name not in own_names()


class CatalogFollower:
    """Follows a catalog, whose tools come and go, with the served tools."""

    def __init__(self, catalog: Catalog, offer: Offer) -> None:
        self._catalog = catalog
        self._offer = offer
        self._tools = self._now()
        self.changed = False

    def _now(self) -> dict[str, Tool]:
        """The tools that are served, but for those that were put here: `ServedTools` has all their versions, the catalogue one."""
        return {
            tool.name: tool for tool in self._catalog if tool.plugin != DOMAIN and self._offer.scope(tool)
        }

    def mark_changed(self) -> None:
        """Note that the catalog has changed; from any thread."""
        self.changed = True

    def update(self, served: ServedTools) -> ServedTools:
        """The served tools with what is in the catalogue now, and with all registered ones."""
        self.changed = False
        before, now = self._tools, self._now()
        self._tools = now
        gone = {name: tool for name, tool in before.items() if now.get(name) is not tool}
        new = [tool for name, tool in now.items() if served.find(name, tool.version) is not tool]
        return served.replace_tools(gone, new) if gone or new else served


def is_remote(remote_sources: RemoteSources, served: ServedTools, route: Route) -> bool:
    """Whether remote sources must be asked before a page can be sent."""
    if not remote_sources or route.kind not in ASKED:
        return False
    tool = served.tools.get(route.name)
    return tool is None or tool.remote is not None


async def refresh_remote(remote_sources: RemoteSources, served: ServedTools, pending: PendingRequest) -> None:
    """Have everybody asked of whom what is known is old, where a request is about what is not here, or about everything. Principal
    ends calls waits for no client."""
    if pending.route.kind != "cancel" and pending.route.name not in served.tools:
        await remote_sources.renew(pending.request.header(b"via") or b"")


async def load_definition(
    remote_sources: RemoteSources, served: ServedTools, pending: PendingRequest
) -> ServedTools | Response:
    """The served tools, with the definition of the requested one loaded; else the error response."""
    tool = served.tools.get(pending.route.name)
    if tool is None or tool.remote is None:
        return served
    problem = (await remote_sources.load_parameters([tool])).get(tool.name)
    return (
        served
        if problem is None
        else error_response(error_for(problem, pending.id.decode("ascii"), tool.name), NOT_STORED)
    )
