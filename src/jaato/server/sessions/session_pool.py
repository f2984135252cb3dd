"""Sessions at work: made in the factory of their workspace, put down when nobody needs them."""

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
MOST_LIVE = 1_000
"""Sessions at hand; where files are few, fewer."""
COMES_BACK_S = 30.0
"""How long a session stays as a client said whose connection was lost."""


class Resume(msgspec.Struct, frozen=True):
    """How a stored session goes on, where not as before."""

    provider: str | None = None
    model: str | None = None
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    alone: bool = False
    blueprint: SessionOptions | None = None
    """What a client says of it, None for what every session begins with."""


AS_BEFORE = Resume()


class Live(msgspec.Struct, eq=False):
    """A session at work. `answering` counts those who can answer its questions."""

    session: Session
    close: Callable[[], Awaitable[None]]
    entry: FactoryEntry
    leave: Callable[[], None] = lambda: None
    silence: Callable[[], None] = lambda: None
    """Ends what is told of it beside its log."""
    informs: bool = False
    """Whether what surrounds it is told, which begins with the first client that wants to know it."""
    listed: bool = False
    """Whether its provider was asked for its models, which begins with the first of these that may choose one."""
    answering: bool = False
    visit: str = ""
    """The visit for which alone it is as it is, by the client's own word; empty: it is as any client may have it."""
    visitor: str = ""
    """Who is on that visit; empty once the connection is lost."""
    left_since: float = 0.0
    how: Resume = AS_BEFORE
    """How it was made or resumed."""
    stops: int = 0
    """How often its work was stopped."""
    uses: int = 0
    """How many commands are just being carried out in it; a message is one until its turn has ended."""
    idle_since: float = msgspec.field(default_factory=anyio.current_time)
    stale: bool = False
    """Whether the configuration is another one since it was made or resumed."""

    @property
    def resting(self) -> bool:
        """Whether nothing would be lost by putting it down now."""
        return not self.uses and not works(self.session) and not list(self.session.tasks.running())

    def rests(self, after_s: float, *, watched: bool) -> bool:
        """Whether it has been resting, watched by nobody, for so long; asked again and again, for it counts from the last
        time it was not."""
        now = anyio.current_time()
        if watched or not self.resting:
            self.idle_since = now
        return now - self.idle_since >= after_s and not watched and self.resting

    @property
    def visit_over(self) -> bool:
        """Whether the visit it is made for is over, and nothing would be lost."""
        late = anyio.current_time() - self.left_since >= COMES_BACK_S
        return bool(self.visit) and not self.visitor and late and self.resting

    def visited_as(self, before: Live) -> None:
        """The visit of what this takes the place of goes on."""
        self.visit, self.visitor, self.left_since = before.visit, before.visitor, before.left_since

    @property
    def keeper(self) -> SessionSaving:
        """What saves the session as a file, where its workspace says so."""
        keeper: SessionSaving = self.session.services["keeper"]
        return keeper

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it from being put down while the body runs."""
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1
            self.idle_since = anyio.current_time()


class FactoryEntry(msgspec.Struct, eq=False):
    """The session factory of a workspace, and since when it has no sessions."""

    key: tuple[str, str]
    factory: SessionFactory
    idle_since: float = 0.0
    models: dict[tuple[str, str | None], list[str]] = msgspec.field(default_factory=dict)
    """Those of each provider, by its name and address, as far as they were asked for."""


class SessionPool:
    """The sessions at work in this process. Everything happens on the loop; `base` is what every session begins with."""

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

    async def begin(
        self,
        blueprint: SessionOptions,
        environment: Mapping[str, str],
        *,
        alone: bool = False,
        informs: bool = False,
    ) -> Live:
        """A new session. Raises `JaatoError`s."""
        assert blueprint.workspace is not None
        how = Resume(environment=environment, alone=alone, blueprint=blueprint)
        entry = self._factory(blueprint.workspace, environment, alone=alone)
        return await self._enter(entry, blueprint, None, how, informs=informs)

    async def resume(
        self,
        session_id: str,
        workspace: Path,
        how: Resume,
        progress: Progress | None = None,
        *,
        informs: bool = False,
    ) -> Live:
        """A stored session, ready to work, with `informs` also to tell what confines its commands; `progress` hears of what
        takes long.

        Raises `SessionBusy` when another process has it, `JaatoError`s."""
        entry = self._factory(workspace, how.environment, alone=how.alone)
        base = how.blueprint or self._base
        journal = Journal(self.store, State(), secrets=entry.factory.secrets)
        entry.idle_since = anyio.current_time()  # it is not to be closed while a long log is read
        with closing(load_session_in_steps(journal, session_id)) as pieces:
            for _ in pieces:
                await anyio.lowlevel.checkpoint()
        try:
            return await self._enter(
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
                informs=informs,
            )
        except BaseException:
            self.store.release(session_id, unfinished=journal.session_state.is_unfinished)
            raise

    async def _enter(
        self,
        entry: FactoryEntry,
        blueprint: SessionOptions,
        journal: Journal | None,
        how: Resume,
        *,
        informs: bool = False,
    ) -> Live:
        session, close = await entry.factory.session(blueprint, journal, resumable=True)
        if informs:
            await find_backend(session)
        live = self.loaded[session.state.session_id] = Live(session, close, entry, how=how)
        return live

    async def evict(self, live: Live) -> None:
        """Close a session; what it was doing is stopped and recorded as such."""
        if self.loaded.pop(live.session.state.session_id, None) is None:
            return
        live.leave()
        live.silence()
        with anyio.CancelScope(shield=True):
            await live.close()
        live.entry.idle_since = anyio.current_time()

    def is_idle(self, live: Live) -> bool:
        """Whether nobody watches a session and it has done nothing for long enough."""
        return live.rests(self._idle_after_s, watched=self._is_watched(live.session.state.session_id))

    async def evict_surplus(self, evict: Callable[[str], Awaitable[None]]) -> None:
        """Evict what has rested longest, when as many sessions are at hand as may be. Raises `Overloaded`."""
        while surplus := self.surplus():
            await evict(surplus)

    def surplus(self) -> str:
        """The id of the session that has rested longest, where as many are at hand as may be, for each has files open;
        empty where there is room for one more. Raises `Overloaded` when all of them are watched or at work."""
        most = most_live()
        if len(self.loaded) < most:
            return ""
        resting = [
            (live.idle_since, session_id)
            for session_id, live in self.loaded.items()
            if live.resting and not live.visit and not self._is_watched(session_id)
        ]
        if not resting:
            raise Overloaded(f"{most} sessions are at work or watched; end one, or try again later.")
        return min(resting)[1]

    def fresh(self, live: Live) -> None:
        """See to it that a session could be resumed now. Raises `JaatoError`s for settings that cannot be used."""
        self._factory(live.entry.factory.workspace, live.how.environment, alone=live.how.alone)

    def _factory(
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
                base = replace(base, environ={**own, **checked(environment)})
            settings = settings_for(base, workspace)
            secrets = session_secrets(settings, base)
            factory = SessionFactory(workspace, settings, self.store, secrets, self.spans, base.state_dir)
            entry = self._factories[key] = FactoryEntry(key, factory, anyio.current_time())
        return entry

    async def renew(self, *, open_sessions: bool) -> None:
        """Make workshops anew for the sessions to come; those in use are closed when their last session is, and with
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

    async def sweep(self, idle_after_s: float | None = None) -> None:
        """Close the workshops nobody has used for so long, else for as long as a session may rest."""
        late = anyio.current_time() - (self._idle_after_s if idle_after_s is None else idle_after_s)
        for entry in list(self._factories.values()):
            if not entry.factory.sessions and entry.idle_since <= late:
                del self._factories[entry.key]
                await entry.factory.close()
        await self._close_retired()

    async def close(self) -> None:
        """Put every session down, turns that run as if the process had died, to be gone on with; then close the workshops."""
        for live in self.loaded.values():
            session = live.session
            if works(session) or session.journal.session_state.is_unfinished:
                session.suspend()
        async with anyio.create_task_group() as group:
            for live in list(self.loaded.values()):
                group.start_soon(self.evict, live)
        await self.sweep(-1.0)


def most_live() -> int:
    """As many sessions as leave files enough for connections and for the work."""
    return limit_by_descriptors(MOST_LIVE)


def works(session: Session) -> bool:
    """Whether the agent or one below it is at work."""
    return session.is_busy or bool(session.supervisor.working())


def digest_of(environment: Mapping[str, str]) -> str:
    """A short name for some variables."""
    if not environment:
        return ""
    text = "\0".join(f"{name}={value}" for name, value in sorted(environment.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def checked(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Variables a session may be given. Raises `ConfigError` for what no process could have."""
    if len(environment) > MAX_VARIABLES:
        raise ConfigError(f"A session has at most {MAX_VARIABLES} variables of its own.")
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value or len(name + value) > MAX_VARIABLE_CHARS:
            raise ConfigError(f"{name[:80]!r} cannot be a variable of a process.")
    return environment
