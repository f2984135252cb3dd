"""The pool of loaded sessions: created by the factory of their workspace, evicted when idle."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
from msgspec.structs import replace

from jaato.abc.store import Store
from jaato.agent.journal import Journal
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import ConfigError, Overloaded
from jaato.log import logger
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_factory import SessionFactory
from jaato.runtime.session_options import Progress, SessionOptions, settings_for
from jaato.runtime.session_saving import SessionSaving
from jaato.runtime.session_store import load_session_in_steps
from jaato.runtime.tracing.config import SpanCounters
from jaato.runtime.user_commands import find_backend
from jaato.server.descriptor_limits import limit_by_descriptors

LOG = logger("server")
MAX_VARIABLES = 1_000
MAX_VARIABLE_CHARS = 100_000
MAX_LOADED = 1_000
"""The most loaded sessions; fewer where the limit of descriptors is low."""
RECONNECT_S = 30.0
"""How long a session keeps the options of a client that has lost its connection."""


class Resume(msgspec.Struct, frozen=True):
    """How a stored session is resumed, where that differs from before."""

    provider: str | None = None
    model: str | None = None
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    alone: bool = False
    blueprint: SessionOptions | None = None
    """Options of the client; None for the defaults."""


AS_BEFORE = Resume()


class Live(msgspec.Struct, eq=False):
    """A loaded session. `has_responder`: a client can answer its questions."""

    session: Session
    close: Callable[[], Awaitable[None]]
    entry: FactoryEntry
    leave: Callable[[], None] = lambda: None
    stop_info: Callable[[], None] = lambda: None
    """Stops publishing its information."""
    wants_info: bool = False
    """Whether its information is published, which starts with the first client that wants it."""
    models_requested: bool = False
    """Whether the models of its provider were requested, which happens for the first client that may choose one."""
    has_responder: bool = False
    visit: str = ""
    """The key of the visit whose options it has, as chosen by the client; empty without one."""
    visitor: str = ""
    """The client of that visit; empty once the connection is lost."""
    left_since: float = 0.0
    how: Resume = AS_BEFORE
    """How it was created or resumed."""
    stops: int = 0
    """How many times it was stopped."""
    uses: int = 0
    """The number of running commands; a message counts until its turn has ended."""
    idle_since: float = msgspec.field(default_factory=anyio.current_time)
    stale: bool = False
    """Whether the configuration has changed since it was loaded."""

    @property
    def is_evictable(self) -> bool:
        """Whether it can be evicted without losing work."""
        return not self.uses and not works(self.session) and not list(self.session.tasks.running())

    def is_idle_for(self, after_s: float, *, watched: bool) -> bool:
        """Whether it was idle and without subscribers for so long; a call while it is busy restarts the time."""
        now = anyio.current_time()
        if watched or not self.is_evictable:
            self.idle_since = now
        return now - self.idle_since >= after_s and not watched and self.is_evictable

    @property
    def is_visit_over(self) -> bool:
        """Whether its visit is over and it can be evicted without losing work."""
        late = anyio.current_time() - self.left_since >= RECONNECT_S
        return bool(self.visit) and not self.visitor and late and self.is_evictable

    def take_over_visit(self, before: Live) -> None:
        """Continue the visit of the session that this one replaces."""
        self.visit, self.visitor, self.left_since = before.visit, before.visitor, before.left_since

    @property
    def keeper(self) -> SessionSaving:
        """The saving of the session as a file, as its workspace has it configured."""
        keeper: SessionSaving = self.session.services["keeper"]
        return keeper

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Prevent its eviction while the body runs."""
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1
            self.idle_since = anyio.current_time()


class FactoryEntry(msgspec.Struct, eq=False):
    """The session factory of a workspace, and the time since it has no sessions."""

    key: tuple[str, str]
    factory: SessionFactory
    idle_since: float = 0.0
    models: dict[tuple[str, str | None], list[str]] = msgspec.field(default_factory=dict)
    """By name and address of a provider, its models, as far as they were requested."""


class SessionPool:
    """The loaded sessions of this process. Everything happens on the loop; `base` has the defaults of every session."""

    def __init__(
        self, store: Store, base: SessionOptions, is_watched: Callable[[str], bool], idle_after_s: float
    ) -> None:
        self.store = store
        self._is_watched = is_watched
        self._idle_after_s = idle_after_s
        self._base = base
        self._factories: dict[tuple[str, str], FactoryEntry] = {}
        self._retired: list[FactoryEntry] = []
        self.loaded: dict[str, Live] = {}
        self.spans = SpanCounters()

    async def create(
        self,
        blueprint: SessionOptions,
        environment: Mapping[str, str],
        *,
        alone: bool = False,
        wants_info: bool = False,
    ) -> Live:
        """A new session. Raises `JaatoError`s."""
        assert blueprint.workspace is not None
        how = Resume(environment=environment, alone=alone, blueprint=blueprint)
        entry = self._get_factory(blueprint.workspace, environment, alone=alone)
        return await self._load(entry, blueprint, None, how, wants_info=wants_info)

    async def resume(
        self,
        session_id: str,
        workspace: Path,
        how: Resume,
        progress: Progress | None = None,
        *,
        wants_info: bool = False,
    ) -> Live:
        """Load a stored session, with `wants_info` also find its sandbox; `progress` is called during long steps.

        Raises `SessionBusy` when another process has it, `JaatoError`s."""
        entry = self._get_factory(workspace, how.environment, alone=how.alone)
        base = how.blueprint or self._base
        journal = Journal(self.store, State(), secrets=entry.factory.secrets)
        entry.idle_since = anyio.current_time()  # it is not to be closed while a long log is read
        with closing(load_session_in_steps(journal, session_id)) as pieces:
            for _ in pieces:
                await anyio.lowlevel.checkpoint()
        try:
            return await self._load(
                entry,
                replace(
                    base,
                    workspace=workspace,
                    progress=progress or base.progress,
                    provider=how.provider or base.provider,
                    model=how.model or base.model,
                ),
                journal,
                how,
                wants_info=wants_info,
            )
        except BaseException:
            self.store.release(session_id, unfinished=journal.session_state.is_unfinished)
            raise

    async def _load(
        self,
        entry: FactoryEntry,
        blueprint: SessionOptions,
        journal: Journal | None,
        how: Resume,
        *,
        wants_info: bool = False,
    ) -> Live:
        session, close = await entry.factory.session(blueprint, journal, resumable=True)
        if wants_info:
            await find_backend(session)
        live = self.loaded[session.state.session_id] = Live(session, close, entry, how=how)
        return live

    async def evict(self, live: Live) -> None:
        """Close a session; running work is stopped and recorded as stopped."""
        if self.loaded.pop(live.session.state.session_id, None) is None:
            return
        live.leave()
        live.stop_info()
        with anyio.CancelScope(shield=True):
            await live.close()
        live.entry.idle_since = anyio.current_time()

    def is_idle(self, live: Live) -> bool:
        """Whether a session has no subscribers and was idle for long enough."""
        return live.is_idle_for(self._idle_after_s, watched=self._is_watched(live.session.state.session_id))

    async def evict_surplus(self, evict: Callable[[str], Awaitable[None]]) -> None:
        """Evict the sessions that were idle for longest when the limit is reached. Raises `Overloaded`."""
        while surplus := self.surplus():
            await evict(surplus)

    def surplus(self) -> str:
        """The id of the session that was idle for longest, when the limit is reached, since each has open files; empty below
        the limit. Raises `Overloaded` when all of them are watched or busy."""
        most = max_loaded()
        if len(self.loaded) < most:
            return ""
        resting = [
            (live.idle_since, session_id)
            for session_id, live in self.loaded.items()
            if live.is_evictable and not live.visit and not self._is_watched(session_id)
        ]
        if not resting:
            raise Overloaded(f"{most} sessions are at work or watched; end one, or try again later.")
        return min(resting)[1]

    def check_resumable(self, live: Live) -> None:
        """Check that a session could be resumed now. Raises `JaatoError`s for invalid settings."""
        self._get_factory(live.entry.factory.workspace, live.how.environment, alone=live.how.alone)

    def _get_factory(
        self, workspace: Path, environment: Mapping[str, str], *, alone: bool = False
    ) -> FactoryEntry:
        workspace = workspace.resolve()
        key = (str(workspace), ("=" if alone else "+") + digest_of(environment))
        entry = self._factories.get(key)
        if entry is not None and not entry.factory.trust.is_current:
            self._retired.append(self._factories.pop(key))  # sessions in it keep the trust they began with
            entry = None
        if entry is None:
            base = replace(self._base, workspace=workspace)
            if environment:
                own = {} if alone else base.environ or {}
                base = replace(base, environ={**own, **check_environment(environment)})
            settings = settings_for(base, workspace)
            secrets = session_secrets(settings, base)
            factory = SessionFactory(workspace, settings, self.store, secrets, self.spans, base.state_dir)
            entry = self._factories[key] = FactoryEntry(key, factory, anyio.current_time())
        return entry

    async def reload_factories(self, *, open_sessions: bool) -> None:
        """Create new factories for future sessions; those in use are closed with their last session, and with
        `open_sessions` their sessions are `stale` until then."""
        for live in self.loaded.values():
            live.stale = live.stale or open_sessions
        self._retired += self._factories.values()
        self._factories.clear()
        await self._close_retired()

    async def _close_retired(self) -> None:
        for entry in [entry for entry in self._retired if not entry.factory.sessions]:
            self._retired.remove(entry)
            await entry.factory.close()

    async def close_idle_factories(self, idle_after_s: float | None = None) -> None:
        """Close factories that had no session for so long, by default for as long as a session may be idle."""
        late = anyio.current_time() - (self._idle_after_s if idle_after_s is None else idle_after_s)
        for entry in list(self._factories.values()):
            if not entry.factory.sessions and entry.idle_since <= late:
                del self._factories[entry.key]
                await entry.factory.close()
        await self._close_retired()

    async def close(self) -> None:
        """Close every session; running turns stay interrupted and can be resumed. Then close the factories."""
        for live in self.loaded.values():
            session = live.session
            if works(session) or session.journal.session_state.is_unfinished:
                session.suspend()
        async with anyio.create_task_group() as group:
            for live in list(self.loaded.values()):
                group.start_soon(self.evict, live)
        await self.close_idle_factories(-1.0)


def max_loaded() -> int:
    """The most sessions whose files leave enough descriptors for connections and work."""
    return limit_by_descriptors(MAX_LOADED)


def works(session: Session) -> bool:
    """Whether the agent or one of its subagents is working."""
    return session.is_busy or bool(session.supervisor.working())


def digest_of(environment: Mapping[str, str]) -> str:
    """A digest of environment variables."""
    if not environment:
        return ""
    text = "\0".join(f"{name}={value}" for name, value in sorted(environment.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Check the variables for a session. Raises `ConfigError` for invalid ones."""
    if len(environment) > MAX_VARIABLES:
        raise ConfigError(f"A session has at most {MAX_VARIABLES} variables of its own.")
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value or len(name + value) > MAX_VARIABLE_CHARS:
            raise ConfigError(f"{name[:80]!r} cannot be a variable of a process.")
    return environment
