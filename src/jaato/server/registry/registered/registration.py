"""Registration: tools are put, replaced and deleted, and served from then on."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import msgspec
from msgspec import UNSET

from jaato.errors import JaatoError, PermissionDenied, PluginError
from jaato.log import logger
from jaato.runtime.plugins.adapter import Toolset
from jaato.server.registry.caller_sessions import Callers
from jaato.server.registry.catalog import Page, ServedTools
from jaato.server.registry.registered.definition import (
    FORMAT,
    InvalidDefinition,
    NotRegistered,
    NotReplaceable,
    StoredTool,
    ToolRegistration,
    check_definition,
)
from jaato.server.registry.registered.handlers import DOMAIN, Handlers
from jaato.server.registry.registered.store import FileContent, FolderChanges, Stamp, ToolFolder, file_name
from jaato.tools.tool import Tool

LOG = logger("server.registry")
MANY = 50
"""So many tools that come at once are added in one copy."""


class LoadedFile(NamedTuple):
    """A kept file, and the tool it is here; None where it can be none."""

    read: FileContent
    tool: Tool | None


class ServedRegistrations:
    """The tools of a registry: those of its domains and plugins, which stay, and those that were put there, by their file."""

    def __init__(self, tools: ServedTools, callers: Callers, handlers: Handlers, folder: Path) -> None:
        self.tools = tools
        self.files: dict[str, LoadedFile] = {}
        self.stamps: dict[str, Stamp] = {}
        """Of every file, what distinguishes it from another in its place."""
        self._handlers = handlers
        self._folder = folder
        self._registry = callers.registry
        self._policy = callers.policy
        self._listed: dict[str, Tool] = {}
        """The tools that calls go by in the catalogue."""
        self._own = [one for newest in tools.tools.values() for one in tools.all_of(newest)]
        self._fixed = frozenset(tool.name for tool in self._own)
        self._warned: dict[str, str] = {}
        self._registry.add_toolset(Toolset(DOMAIN, handlers))

    def load(self, changed: dict[str, FileContent], gone: Iterable[str] = ()) -> None:
        """Serve what is in these files, and no longer what was in those."""
        left = [self.files.pop(file, None) for file in gone]
        for file in gone:
            self.stamps.pop(file, None)
        old = [one.tool for one in (*left, *map(self.files.get, changed)) if one is not None and one.tool]
        made = {file: LoadedFile(read, self._make_tool(file, read)) for file, read in changed.items()}
        self.files |= made
        self.stamps |= {file: read.stamp for file, read in changed.items()}
        new = [one.tool for one in made.values() if one.tool is not None]
        kept = {(tool.name, tool.version) for tool in new}
        before, after = {tool.name for tool in old}, {tool.name for tool in new}
        served = self.tools
        if len(changed) > MANY:
            served = ServedTools([*self._own, *in_registration_order(self.files.values())])
        else:
            for tool in old:
                served = (
                    served if (tool.name, tool.version) in kept else served.without(tool.name, tool.version)
                )
            served = served.with_tools(in_registration_order(made.values()))
        if before != after:
            self._policy.admit({one.tool.name for one in self.files.values() if one.tool is not None})
        self._update_catalog(served, before | after)
        self.tools = served

    def _make_tool(self, file: str, read: FileContent) -> Tool | None:
        """The tool of a file; None where there can be none, which is reported."""
        why = read.why
        if read.entry is not None:
            try:
                if read.entry.name in self._fixed:
                    raise NotReplaceable("A domain or a plugin has a tool of this name.")
                self._handlers.refuse(read.entry.handler)
                return self._handlers.tool(read.entry)
            except JaatoError as error:
                why = str(error)
        self.warn_once(file, f"The registered tool in {self._folder / file} is left out: {why.rstrip('.')}.")
        return None

    def _update_catalog(self, tools: ServedTools, names: Iterable[str]) -> None:
        """Have calls by these names be those of their newest versions; calls under way end as they began."""
        old = {name: self._listed.pop(name) for name in names if name in self._listed}
        new = {name: tool for name in names if (tool := tools.find(name)) is not None}
        try:
            self._registry.renew(DOMAIN, list(old.values()), list(new.values()))
        except PluginError:
            for name in {**old, **new}:
                self._update_one(name, old.get(name), new.get(name))
        else:
            self._listed |= new

    def _update_one(self, name: str, old: Tool | None, new: Tool | None) -> None:
        try:
            self._registry.renew(DOMAIN, [old] if old else [], [new] if new else [])
        except PluginError as error:
            self._registry.renew(DOMAIN, [old] if old else [], [])
            self.warn_once(name, f"The registered tool {name} is not in the catalogue: {error}")
        else:
            self._listed |= {name: new} if new else {}

    def warn_once(self, about: str, words: str) -> None:
        """Log something, once."""
        if self._warned.get(about) != words:
            self._warned[about] = words
            LOG.warning("%s", words)

    def page(self, tool: Tool) -> Page:
        """The definition of a tool that is served."""
        page = self.tools.definition(tool.name, tool.version)
        assert page is not None
        return page

    def refuse_read_only(self) -> None:
        """Raise `PermissionDenied` where nothing is changed at all."""
        if self._policy.read_only:
            raise PermissionDenied("This registry only reads (--read-only): no tool is put or deleted.")

    def refuse_fixed(self, name: str) -> None:
        """Raise `NotReplaceable` for the name of a tool that was not put over HTTP."""
        found = self._registry.catalog.find(name)
        if name in self._fixed or (found is not None and found.tool.plugin != DOMAIN):
            raise NotReplaceable(
                f"{name[:80]!r} is a tool of a domain or a plugin of this registry, which is not changed over HTTP."
            )


def in_registration_order(shown: Iterable[LoadedFile]) -> list[Tool]:
    """The tools in the order in which they were first put, those changed since once more at the end: where a version does not
    say which is the newest, it is the one put last."""
    found = [(one.read.entry, one.tool) for one in shown if one.read.entry and one.tool]
    first = sorted(found, key=lambda one: one[0].created_ns)
    changed = [one for one in found if one[0].changed_ns != one[0].created_ns]
    return [tool for _, tool in (*first, *sorted(changed, key=lambda one: one[0].changed_ns))]


LOOK_S = 2.0
"""How often other servers' changes are looked for."""
WAIT_S = 10.0
"""How long a change waits for that of another server."""
AGAIN_S = 0.01

T = TypeVar("T")
Condition = Callable[[Page | None], None]
"""Raises where the tool is not what whoever changes it thinks; it is given the definition there is, None without."""


class RegisteredTools:
    """The tools of a registry, and how they change. What other servers put into the folder is taken over within seconds."""

    def __init__(self, tools: ServedTools, callers: Callers, folder: ToolFolder, handlers: Handlers) -> None:
        self.callers = callers
        self.served = ServedRegistrations(tools, callers, handlers, folder.path)
        self._folder = folder
        self._handlers = handlers
        self._changing = anyio.Lock()
        self._underway: set[asyncio.Task[Any]] = set()
        self._take(self._look())

    @property
    def any(self) -> bool:
        """Whether there is a tool that was put here, not named by who serves."""
        return bool(self.served.stamps)

    # --- taken over --------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Take over, again and again, what other servers have changed."""
        while True:
            await anyio.sleep(LOOK_S)
            async with self._changing:
                await self._reload()

    async def _reload(self) -> None:
        """Have what is in the folder now. What cannot be a tool here is reported, and left where it is."""
        self._take(await anyio.to_thread.run_sync(self._look))

    def _look(self) -> FolderChanges | None:
        try:
            return self._folder.find_changes(self.served.stamps)
        except OSError as error:
            self.served.warn_once("", f"Registered tools cannot be read: {error.strerror or error}.")
            return None

    def _take(self, found: FolderChanges | None) -> None:
        if found is not None:
            self.served.load(*found)

    # --- changed -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[None]:
        """The folder is ours to change, and known as it is. Raises OSError, TimeoutError where another process holds it."""
        async with self._changing:
            with anyio.fail_after(WAIT_S):
                holding = await self._hold()
            try:
                await self._reload()
                yield
            finally:
                await anyio.to_thread.run_sync(holding.__exit__, None, None, None)

    async def _hold(self) -> AbstractContextManager[None]:
        while True:
            holding = self._folder.lock()
            try:
                await anyio.to_thread.run_sync(holding.__enter__)
            except BlockingIOError:
                await anyio.sleep(AGAIN_S)
            else:
                return holding

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """See a change through to its end, whether or not whoever asked for it still waits."""
        task = asyncio.create_task(work)
        self._underway.add(task)
        task.add_done_callback(self._on_done)
        return await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._underway.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has the error, or has disconnected

    async def put(
        self,
        name: str,
        given: ToolRegistration,
        condition: Condition,
        *,
        asked: str | None = None,
        by: str = "",
    ) -> tuple[Tool, bool]:
        """Store and serve a version of a tool; whether it is new. The condition applies to the served version `asked`, None
        for the newest.

        Raises `NotReplaceable`, `InvalidDefinition`, `HandlerForbidden`, `RegistryFull`, what the condition raises, and
        OSError if it cannot be stored; nothing has changed then.
        """
        self.served.refuse_fixed(name)
        await anyio.to_thread.run_sync(check_definition, name, given)
        if given.handler is not UNSET:
            await self._handlers.check(given.handler)
        return await self.run_to_end(self._put(name, given, condition, asked, by))

    async def _put(
        self, name: str, given: ToolRegistration, condition: Condition, asked: str | None, by: str
    ) -> tuple[Tool, bool]:
        async with self._lock():
            self.served.refuse_fixed(name)
            condition(self.served.tools.definition(name, asked))
            known = self.served.files.get(file_name(name, given.version))
            before = known.read.entry if known is not None else None
            entry = make_stored_tool(before, name, given, by)
            self._handlers.refuse(entry.handler)
            if known is not None and known.tool is not None and is_same(before, entry):
                return known.tool, False
            file, read = await anyio.to_thread.run_sync(self._folder.put, entry, self.served.stamps)
            self.served.load({file: read})
            tool = self.served.files[file].tool
            if tool is None:
                raise NotReplaceable(f"{name} is kept and cannot be served; the registry's log says why.")
            return tool, known is None or known.tool is None

    async def delete(self, name: str, version: str | None, condition: Condition) -> list[str]:
        """Keep and serve no longer this version of a tool, None for all of them; gives which they were.

        Raises `NotReplaceable`, `NotRegistered`, what the condition raises, and OSError where the folder cannot be changed.
        """
        self.served.refuse_fixed(name)
        return await self.run_to_end(self._delete(name, version, condition))

    async def _delete(self, name: str, version: str | None, condition: Condition) -> list[str]:
        async with self._lock():
            kept = {file: one.read.entry for file, one in self.served.files.items() if one.read.entry}
            files = {
                file: entry.tool.version
                for file, entry in kept.items()
                if entry.name == name and version in (None, entry.tool.version)
            }
            page = self.served.tools.definition(name, version)
            if not files:
                which = (
                    f"no version {version[:80]!r} of {name}"
                    if version is not None
                    else f"no registered tool {name[:80]!r}"
                )
                raise NotRegistered(f"There is {which} here.")
            condition(page)
            try:
                for file in files:
                    await anyio.to_thread.run_sync(self._folder.remove, file)
                    self.served.load({}, [file])
            except OSError:
                await self._reload()
                raise
            return list(files.values())


def is_same(before: StoredTool | None, entry: StoredTool) -> bool:
    """Whether nothing is changed; to Python, 1 and true are equal."""
    return before is not None and msgspec.json.encode(before.tool) == msgspec.json.encode(entry.tool)


def make_stored_tool(before: StoredTool | None, name: str, given: ToolRegistration, by: str) -> StoredTool:
    """What is kept in the place of what was. Raises `InvalidDefinition` where no handler is named."""
    now = time.time_ns()
    handler = given.handler
    if handler is UNSET:
        if before is None:
            raise InvalidDefinition(
                [("/handler", "is missing; only a version that is there keeps the one it has")]
            )
        handler = before.handler
    tool = msgspec.structs.replace(given, handler=handler, name=UNSET, schema_version=UNSET)
    created = before.created_ns if before is not None else now
    return StoredTool(
        format=FORMAT,
        name=name,
        tool=tool,
        revision=secrets.token_hex(4),
        created_ns=created,
        changed_ns=now,
        by=by,
    )
