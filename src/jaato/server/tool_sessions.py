"""Sessions for clients with a model of their own (MCP clients, callers of a registry), and the tools they are offered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import anyio
from msgspec.structs import replace

from jaato.abc.provider import Chunk, ModelRequest
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.protocol.messages import Problem
from jaato.protocol.specs import ModelInfo, ToolSpec
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.policy_setup import policy_for
from jaato.runtime.runtime import Plan, Runtime
from jaato.runtime.session_factory import plan_of
from jaato.runtime.session_options import SessionOptions, settings_for, workspace_of
from jaato.runtime.session_store import open_store
from jaato.server.mcp.sessions import ClientAsker, ToolSession
from jaato.tools.call import problem_of
from jaato.tools.catalog import Catalog
from jaato.tools.remote.refresh import (
    START_WITHIN_S,
    THROUGH,
    connect_unvisited,
    load_schemas,
    marks_in,
    refresh_tools,
    via_of,
)
from jaato.tools.tool import Tool


class NoModel:
    """A provider that answers no request; its empty name lets a resumed session choose a provider."""

    name = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Raises `ConfigError`."""
        raise ConfigError(
            "This session serves an MCP client and has no model of its own; let the client's model do it."
        )
        yield  # makes this the asynchronous iterator it says it is

    def model_info(self, model: str) -> ModelInfo:
        """Nothing is known of the client's model."""
        return ModelInfo(id=model, provider=self.name)

    async def models(self) -> list[ModelInfo]:
        """There are none."""
        return []

    async def aclose(self) -> None:
        """Nothing is open."""


def every(_tool: Tool) -> bool:
    """Any tool."""
    return True


@dataclass(frozen=True, slots=True)
class Offer:
    """The core tools and the two of discovery, unless it is `whole` (everything) or names `tools` (nothing else). What is not in `scope`
    is offered in no case."""

    whole: bool = False
    tools: tuple[str, ...] = ()
    scope: Callable[[Tool], bool] = every

    def plan(self, plan: Plan, catalog: Catalog) -> Plan:
        """The plan of a session that declares what is offered. Raises `ConfigError` for a tool there is not."""
        if self.whole:
            return replace(plan, deferred=False)
        if self.tools:
            return replace(plan, deferred=True, core=tuple(self.resolve_names(catalog)))
        return replace(plan, deferred=True)

    def instructions(self, catalog: Catalog) -> str:
        """The instructions for the client's model."""
        if self.whole or self.tools:
            return (
                "Tools of this machine and workspace, by jaato. Calls that change something may ask the user."
            )
        return (
            f"jaato has {len(catalog)} tools for this workspace and lists a few. Find others with "
            "list_tools(queries=[…]), then pass their names to get_tool_schemas: they join the list of tools. "
            "Calls that change something may ask the user."
        )

    def resolve_names(self, catalog: Catalog) -> list[str]:
        """The `tools` by their own names. Raises `ConfigError` for one there is not."""
        names: list[str] = []
        for name in self.tools:
            found = catalog.find(name)
            if found is None:
                near = ", ".join(catalog.similar(name))
                hint = f"like it: {near}" if near else "`jaato tools list` shows them all"
                raise ConfigError(f"There is no tool {name!r} to offer; {hint}.")
            names.append(found.tool.name)
        return names


LOG = logger("server.mcp")
MAX_SESSIONS = 256
IDLE_S = 1_800.0
SWEEP_S = 60.0


Named = Tool | ToolSpec


class ToolSessions:
    """The sessions of clients, each created with the first call, so that a client that only lists tools has none."""

    name_prefix = "MCP"
    """The prefix of the names of sessions."""
    client_prefix = ""
    """The prefix of the name that a client gives itself."""
    session_type: type[ToolSession] = ToolSession

    def __init__(self, runtime: Runtime, plan: Plan, offer: Offer, state_dir: Path) -> None:
        self.offer = offer
        self.state_dir = state_dir
        self._runtime = runtime
        self.remote_sources = RemoteSources(self.catalog)
        self._base_plan = replace(plan, asker=ClientAsker(), prompt=plan.prompt or "")
        self._awaits_sources = bool(offer.tools) and bool(self.catalog.sources or self.catalog.unvisited)
        self._plan = self._base_plan if self._awaits_sources else offer.plan(self._base_plan, self.catalog)
        self._sessions: dict[str, ToolSession] = {}
        self._lock = anyio.Lock()

    @classmethod
    def open(cls, options: SessionOptions, offer: Offer) -> Self:
        """Open the tool sessions of a workspace; model and provider of the options do not count. Raises `JaatoError`s."""
        workspace = workspace_of(options)
        settings = settings_for(options, workspace)
        store = open_store(settings, options.state_dir)
        runtime: Runtime | None = None
        try:
            registry = create_registry(workspace, settings, "", options)
            runtime = Runtime(store, registry, ledger=options.ledger)
            state_dir = options.state_dir or settings.state_dir
            policy = policy_for(options, settings, workspace)
            plan = plan_of(options, settings, NoModel(), "", workspace, policy)
            return cls(runtime, plan, offer, state_dir)
        except BaseException:
            (runtime or store).close()
            raise

    @property
    def catalog(self) -> Catalog:
        """All tools of the catalogue."""
        return self._runtime.registry.subset(None)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the tools change, from any thread; returns a function that removes it."""
        return self._runtime.registry.watchers.add(changed)

    def declared(self, key: str) -> tuple[Named, ...]:
        """The tools that are declared to a client now; equal values mean that nothing has changed for it."""
        if self.offer.whole:
            return tuple(self.offered())
        tool_session = self.get(key)
        return tuple(tool_session.declared() if tool_session is not None else self.first())

    def offered(self) -> list[Tool]:
        """Every tool that is offered."""
        return [tool for tool in self.catalog if self.offer.scope(tool)]

    async def renew(self) -> None:
        """Refresh remote sources whose tools are outdated, where their tools are offered without discovery."""
        if self.offer.whole or self.offer.tools:
            await self.remote_sources.renew()

    async def begin(self) -> None:
        """List the tools of remote sources, where they are offered without discovery. Raises `ConfigError` for an
        unknown tool."""
        if not (self.offer.whole or self.offer.tools):
            return  # they are asked at the first search for tools
        await self.remote_sources.begin()
        if self._awaits_sources:
            self._plan, self._awaits_sources = self.offer.plan(self._base_plan, self.catalog), False
            found = [self.catalog.find(name) for name in self.offer.tools]
            await self.remote_sources.with_parameters(entry.tool for entry in found if entry is not None)

    async def page(
        self, tool_session: ToolSession | None, start: int, most: int
    ) -> tuple[list[ToolSpec], bool]:
        """A page of the tools that are declared to a client, with their parameters; and whether there are more."""
        await self.begin()
        if not self.offer.whole:
            specs = tool_session.declared() if tool_session is not None else self.first()
            return specs[start : start + most], len(specs) > start + most
        if start == 0:
            await self.remote_sources.renew()
        tools = self.offered()
        page = await self.remote_sources.with_parameters(tools[start : start + most])
        if tool_session is not None:
            tool_session.session.activate([tool.name for tool in page])  # those that came since it began
        return [tool.spec for tool in page], len(tools) > start + most

    def first(self) -> list[ToolSpec]:
        """The tools that a client sees before its first call."""
        if not self._plan.deferred:
            return [tool.spec for tool in self.offered()]
        if self._plan.core is None:
            return [tool.spec for tool in self.catalog.core]
        found = [self.catalog.find(name) for name in self._plan.core]
        return [entry.tool.spec for entry in found if entry is not None]

    def get(self, key: str) -> ToolSession | None:
        """The client's session, if it has made a call."""
        return self._sessions.get(key)

    async def open_session(self, key: str, client: str) -> ToolSession:
        """The client's session, created if necessary. Raises `ConfigError` when there are too many, `StoreError`."""
        known = self._sessions.get(key)
        if known is not None:
            return known
        async with self._lock:
            known = self._sessions.get(key)
            if known is not None:
                return known
            if len(self._sessions) >= MAX_SESSIONS:
                await self._make_room()
            tool_session = self._sessions[key] = await self._create(client)
            return tool_session

    async def _create(self, client: str) -> ToolSession:
        session = self._runtime.create(
            replace(self._plan, model=client, name=f"{self.name_prefix}: {client}")
        )
        await session.__aenter__()
        self._runtime.registry.set_session(session)
        return self.session_type(session, client)

    async def leave(self, key: str) -> None:
        """Handle the end of a client: stop its calls and close its session."""
        tool_session = self._sessions.pop(key, None)
        if tool_session is not None:
            await self._close(tool_session)

    async def sweep(self) -> None:
        """Periodically close the sessions of clients without a call for half an hour."""
        while True:
            await anyio.sleep(SWEEP_S)
            late = anyio.current_time() - IDLE_S
            for key in [key for key, one in self._sessions.items() if not one.busy and one.last_used < late]:
                await self.leave(key)

    async def close(self) -> None:
        """Close every session, then the plugins and the store."""
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as group:
                    for key in list(self._sessions):
                        group.start_soon(self.leave, key)
            finally:
                self._runtime.close()

    def abandon(self) -> None:
        """Close the plugins and the store of a door that has no session yet."""
        self._runtime.close()

    async def _make_room(self) -> None:
        idle = sorted((one.last_used, key) for key, one in self._sessions.items() if not one.busy)
        if not idle:
            raise ConfigError(f"{MAX_SESSIONS} clients are being served; try again later.")
        await self.leave(idle[0][1])

    async def _close(self, tool_session: ToolSession) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await tool_session.session.__aexit__(None, None, None)
            except JaatoError as error:
                LOG.warning("The session of %s was not closed cleanly: %s", tool_session.client, error)
            finally:
                self._runtime.registry.forget_session(tool_session.session)


class RemoteSources:
    """The remote sources of a catalogue's tools. Each is refreshed within limits, and only when its tools are outdated."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._beginning = anyio.Lock()
        self._create = False

    def __bool__(self) -> bool:
        """Whether there are remote sources."""
        return bool(self._catalog.sources)

    async def begin(self) -> None:
        """List the tools of all sources, once; programs may be started for it."""
        async with self._beginning:
            if not self._create:
                await connect_unvisited(self._catalog, START_WITHIN_S)
                await self.renew()
                self._create = True

    async def renew(self, via: bytes = b"") -> None:
        """Refresh outdated sources, for a request that came through the servers in `via`; nothing when this one is among them."""
        through = marks_in(via.decode("latin-1"))
        if self._catalog.mark in through:
            return
        token = THROUGH.set((self._catalog.mark, *through))
        try:
            await refresh_tools(self._catalog)
        finally:
            THROUGH.reset(token)

    async def load_parameters(self, tools: Iterable[Tool]) -> dict[str, Problem]:
        """Load the parameters of tools; gives the errors of those that failed, by name."""
        failed = await load_schemas(tools)
        return {name: problem_of(error) for name, error in failed.items()}

    async def with_parameters(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools whose parameters could be loaded."""
        tools = list(tools)
        failed = await load_schemas(tools)
        return [tool for tool in tools if tool.name not in failed]

    @property
    def via(self) -> tuple[bytes, bytes]:
        """The header `via` with the servers the tools came through, so that none lists its own tools as another's."""
        others = sorted({mark for marks in self._catalog.marks.values() for mark in marks})
        return b"via", via_of([self._catalog.mark, *others]).encode("ascii")
