"""Sessions as files, exported, imported, and kept by a session plugin, whose hooks follow the session's events."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.session_plugin import SavedSession, SessionConfig, SessionPlugin, SessionState
from jaato.abc.store import Store
from jaato.agent.event_redaction import redact_bytes, redact_log
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import ConfigError, JaatoError, SessionNotFound, StoreError
from jaato.lazy_pattern import lazy_pattern
from jaato.log import logger
from jaato.plugins.session import FileSessionPlugin, read_session_config
from jaato.protocol.events import (
    AgentCreated,
    ErrorRaised,
    Event,
    PermissionGranted,
    PermissionRevoked,
    SessionCreated,
    SessionUpdated,
    TurnCompleted,
)
from jaato.protocol.events.turn import now
from jaato.protocol.ids import is_id
from jaato.protocol.messages import Problem
from jaato.runtime.plugins.discovery import NONE, Loader, NamedPlugins
from jaato.runtime.plugins.isolation import BROKEN, run_bounded, short_message
from jaato.settings.budgets import format_count
from jaato.tools.call import problem_of, replace_surrogates
from jaato.tools.redaction.redactor import Redactor

BLOB_BYTES = 16_000_000
"""How many bytes of large results go into one file."""
DIGEST = lazy_pattern(r"[0-9a-f]{64}")
METHODS = "initialize shutdown save load list_sessions delete on_session_start on_turn_complete on_session_end".split()
SESSION_PLUGINS: NamedPlugins[SessionPlugin] = NamedPlugins(
    "session", "session plugin", "SessionPlugin", METHODS, {"file": "jaato.plugins.session:FileSessionPlugin"}
)


class RestoreTarget(msgspec.Struct, frozen=True):
    """What a session from a file takes over from the one it is resumed from: nothing in a file decides where it works,
    its system prompt, its model, or its permissions."""

    workspace: str
    provider: str
    model: str
    system_prompt: str
    core_tools: list[str]

    @classmethod
    def of(cls, state: State) -> RestoreTarget:
        """That of this session."""
        return cls(state.workspace, state.provider, state.model, state.system_prompt, list(state.core_tools))


# --- out -------------------------------------------------------------------------------------------------------------


def head_of(session: Session) -> SavedSession:
    """What a list shows of a session."""
    return SavedSession(**fields_of(session))


def fields_of(session: Session) -> dict[str, Any]:
    """The fields of a session's head; its log is masked, and so are they."""
    state = session.state
    return {
        "session_id": state.session_id,
        "workspace": state.workspace,
        "provider": state.provider,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": now(),
        "turns": state.turns,
        "name": state.name,
        "description": state.description,
    }


def export_state(session: Session) -> Callable[[], SessionState]:
    """What gives a session as it is now, as it is saved: its log and its large results, masked. Works in any thread."""
    journal, session_id = session.journal, session.state.session_id
    journal.flush()
    head, last = fields_of(session), journal.store.last_seq(session_id)

    def read() -> SessionState:
        log = redact_log(journal.store.read(session_id), journal.secrets)
        events = [event for event in log if isinstance(event, Event) and event.seq <= last]
        blobs, missing = blobs_of(journal.store, session_id, digests_in(events), journal.secrets)
        updated_at = events[-1].timestamp if events else head["updated_at"]
        return SessionState(**{**head, "updated_at": updated_at}, events=events, blobs=blobs, missing=missing)

    return read


def digests_in(events: Iterable[Event]) -> list[str]:
    """The hashes of large results that events name."""
    found: dict[str, None] = {}
    for event in events:
        for text in texts_at(msgspec.to_builtins(event)):
            if digest := DIGEST.fullmatch(text.removeprefix("result:").removeprefix("sha256:")):
                found[digest[0]] = None
    return list(found)


def texts_at(value: Any) -> Iterator[str]:
    """The texts under `blob` and `handle`, at any depth."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if key in ("blob", "handle"):
                    yield item
            else:
                yield from texts_at(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_at(item)


def blobs_of(
    store: Store, session_id: str, digests: Iterable[str], secrets: Redactor
) -> tuple[dict[str, bytes], list[str]]:
    """Large results by their hash, as far as they fit, and the hashes of the others."""
    kept: dict[str, bytes] = {}
    missing: list[str] = []
    left = BLOB_BYTES
    for digest in digests:
        try:
            size = store.blob_size(session_id, digest)
            data = store.get_blob(session_id, digest) if size <= left else None
        except StoreError:
            data = None
        if data is None or redact_bytes(data, secrets) != data:  # masked it would be another
            missing.append(digest)
            continue
        kept[digest] = data
        left -= len(data)
    return kept, missing


# --- in --------------------------------------------------------------------------------------------------------------


def import_saved(store: Store, state: SessionState, home: RestoreTarget) -> str:
    """Make a session of a saved one, under its own id, in one commit; returns the id.

    Raises `SessionBusy` when the store has it already, `ConfigError` for what is no session.
    """
    store.create(rewrite_foreign_log(state, home))
    for digest, data in state.blobs.items():
        if store.put_blob(state.session_id, data) != digest:
            state = msgspec.structs.replace(state, missing=[*state.missing, digest])
    return state.session_id


def rewrite_foreign_log(state: SessionState, home: RestoreTarget) -> list[Event]:
    """The log of a saved session, numbered anew, at home here and without what was granted."""
    if not is_id(state.session_id, "s"):
        raise ConfigError(f"{state.session_id[:60]!r} is no id of a session.")
    if not state.events or not isinstance(state.events[0], SessionCreated):
        raise ConfigError(f"The saved session {state.session_id} has lost its first record.")
    settled: list[Event] = []
    for event in state.events:
        if not event.durable or isinstance(event, PermissionGranted | PermissionRevoked):
            continue
        changes: dict[str, Any] = {"session_id": state.session_id, "seq": len(settled) + 1}
        match event:
            case SessionCreated() if settled:
                continue
            case SessionCreated():
                changes["workspace"] = home.workspace
            case AgentCreated():
                changes |= {
                    "provider": home.provider,
                    "model": home.model,
                    "system_prompt": home.system_prompt,
                    "core_tools": home.core_tools,
                }
            case SessionUpdated():
                changes |= {"provider": None, "model": None, "mode": None}
        settled.append(msgspec.structs.replace(event, **changes))
    if not any(isinstance(event, AgentCreated) and event.parent_agent_id is None for event in settled):
        raise ConfigError(f"The saved session {state.session_id} has lost its agent.")
    return settled


# --- which plugins ---------------------------------------------------------------------------------------------------


def discover_session_plugins(modules: Mapping[str, ModuleType] = NONE) -> dict[str, Loader]:
    """A loader for each session plugin by name: `file`, those of the entry point group `jaato.session_plugins`, and
    those of these modules. Nothing is imported yet."""
    return SESSION_PLUGINS.discover(modules)


def load_session_plugin(
    name: str = "file", config: dict[str, Any] | None = None, modules: Mapping[str, ModuleType] = NONE
) -> SessionPlugin:
    """The session plugin of this name, initialised. Raises `PluginError` for one that is not there or cannot be used.

    Whoever loads it shuts it down.
    """
    return SESSION_PLUGINS.load(name, config, modules)


def place_plugin(plugin: SessionPlugin, workspace: Path) -> SessionPlugin:
    """The plugin, with its workspace set if it has a method for that."""
    settle = getattr(plugin, "set_workspace_path", None)
    if callable(settle):
        settle(str(workspace))
    return plugin


LOG = logger("session")
T = TypeVar("T")
Hook = Callable[[SavedSession, SessionConfig], None]
HOOK_S = 60.0
"""How long a plugin may take for one thing."""


class SessionSaving:
    """One session and what keeps it. Everything but the plugin's own methods happens on the loop.

    With `asked_only` nothing is saved unless it is requested: the workspace has no settings for it.
    """

    def __init__(
        self, session: Session, plugin: SessionPlugin, config: SessionConfig, *, asked_only: bool = False
    ) -> None:
        self._session = session
        self._lock = anyio.Lock()
        self._hooks: set[asyncio.Task[None]] = set()
        self._silence: Callable[[], None] = lambda: None
        self._saved_seq = session.journal.loaded_seq
        self._take(plugin, config, asked_only=asked_only)

    def _take(self, plugin: SessionPlugin, config: SessionConfig, *, asked_only: bool) -> None:
        self.plugin = place_plugin(
            SESSION_PLUGINS.check(plugin, str(getattr(plugin, "name", plugin))), self._session.workspace
        )
        self.config = config
        self._asked_only = asked_only
        self._silence()
        if not asked_only:
            self._silence = self._session.journal.bus.listen(self._hear)

    async def use(self, plugin: SessionPlugin, config: SessionConfig) -> None:
        """Another plugin keeps the session from now on. Raises `PluginError` for what is none."""
        await self.wait_idle()
        self._take(plugin, config, asked_only=False)
        await self.begin()

    async def begin(self) -> None:
        """The session has begun, or is resumed."""
        if not self._asked_only:
            hook = find_start_hook(self.plugin)
            await self._run_later(self._hook(hook, head_of(self._session)), "on_session_start")

    def _hear(self, event: Event) -> None:
        if isinstance(event, TurnCompleted) and event.agent_id == self._session.state.agent_id:
            task = asyncio.get_running_loop().create_task(self._turn())
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)

    async def _turn(self) -> None:
        head, every = head_of(self._session), self.config.checkpoint_after_turns
        if every and head.turns % every == 0:
            await self._run_later(self._save, "save", aloud=True)
        await self._run_later(self._hook(self.plugin.on_turn_complete, head), "on_turn_complete", aloud=True)

    def _hook(self, hook: Hook, head: SavedSession) -> Callable[[], Awaitable[None]]:
        config = self.config
        return lambda: self._run(lambda: hook(head, config))

    async def wait_idle(self) -> None:
        """Wait until the plugin was called for every event so far."""
        while self._hooks:
            await asyncio.wait(self._hooks)

    async def _run_later(
        self, work: Callable[[], Awaitable[object]], what: str, *, aloud: bool = False
    ) -> None:
        """Run something in the background; a failure is logged, with `aloud` in the session too, and has no other effect."""
        try:
            await work()
        except BROKEN as error:
            message = f"The session plugin {self.plugin.name} failed in {what}: {short_message(error)}"
            LOG.warning("%s", message)
            if aloud:
                self._raise(Problem(problem_of(error).code, message))

    def _raise(self, problem: Problem) -> None:
        """Report a failure in the session, if that is still possible."""
        journal = self._session.journal
        with contextlib.suppress(JaatoError):
            journal.record(ErrorRaised(**journal.head(), error=problem))

    async def _run(self, work: Callable[[], T]) -> T:
        """What the plugin gives, in a thread and in its time."""
        message = f"The session plugin {self.plugin.name}"
        async with self._lock:
            return await anyio.to_thread.run_sync(lambda: run_bounded(HOOK_S, work, message))

    @property
    def _seq(self) -> int:
        """The last event of the log, whichever agent's."""
        return self._session.journal.store.last_seq(self._session.state.session_id)

    async def _save(self) -> str:
        seq, read = self._seq, export_state(self._session)
        place = await self._run(lambda: self.plugin.save(read()))
        self._saved_seq = max(self._saved_seq, seq)
        return place

    # --- what is asked for -------------------------------------------------------------------------------------

    async def save(self) -> str:
        """Save the session as it is; returns where. Raises what the plugin raises."""
        await self.wait_idle()
        return await self._save()

    async def command(self, name: str, rest: str) -> str:
        """Carry out `save`, `resume ID`, `sessions` or `delete-session ID`; returns what to say."""
        text = rest.strip()
        match name:
            case "save":
                return f"Saved as {await self.save()}."
            case "resume":
                return (
                    f"The session {await self.bring(text)} is at hand: attach to it, or open it by this id."
                )
            case "delete-session":
                if await self.delete(text):
                    return f"The saved copy of {text} is gone; the session itself stays stored."
                return f"There is no saved session {text}."
        rows = [line_of(one) for one in await self.saved_sessions()]
        return "\n".join(rows) or "No session is saved; save writes this one."

    async def saved_sessions(self) -> list[SavedSession]:
        """Those that are saved, newest first."""
        return await self._run(self.plugin.list_sessions)

    async def delete(self, session_id: str) -> bool:
        """Remove a saved copy; the log stays."""
        return await self._run(lambda: self.plugin.delete(session_id))

    async def bring(self, text: str) -> str:
        """The id of the session meant: one of the store, else a saved one, which is put into the store.

        Raises `SessionNotFound`, `ConfigError` for a damaged file.
        """
        store, state = self._session.journal.store, self._session.state
        if not text or len(text) > 200:
            raise SessionNotFound("Name a session: its id, the beginning of one, or its name.")
        try:
            return store.find(text, state.workspace)
        except SessionNotFound as error:
            if error.several:
                raise
            session_id = await self._get_saved_id(text)
        found = await self._run(lambda: self.plugin.load(session_id))
        if found.session_id != session_id:
            raise ConfigError(f"The saved session {session_id} is another one: {found.session_id[:60]!r}.")
        return import_saved(store, found, RestoreTarget.of(state))

    async def _get_saved_id(self, text: str) -> str:
        saved = await self.saved_sessions()
        exact = [one.session_id for one in saved if text in (one.session_id, one.name)]
        found = exact or [one.session_id for one in saved if text and one.session_id.startswith(text)]
        if len(found) != 1:
            which = "There are several" if found else "There is no"
            raise SessionNotFound(f"{which} session {text[:60]!r}, stored or saved; `sessions` lists them.")
        return found[0]

    # --- the end -----------------------------------------------------------------------------------------------

    async def on_detach(self) -> None:
        """The last client has detached: save what has happened since the last time, if the settings demand it."""
        state = self._session.state
        if self._asked_only or not self.config.auto_save_on_exit or not state.turns:
            return
        await self.wait_idle()
        if self._seq > self._saved_seq:
            await self._run_later(self._save, "save")

    async def end(self) -> None:
        """The session ends here: it is saved as after the last client has detached, and the plugin is called."""
        await self.on_detach()
        self._silence()
        if not self._asked_only:
            hook = self._hook(self.plugin.on_session_end, head_of(self._session))
            await self._run_later(hook, "on_session_end")


def find_start_hook(plugin: SessionPlugin) -> Hook:
    """`on_session_start` of a plugin, with the session and the settings, or with the settings alone as documented."""
    hook: Any = plugin.on_session_start
    try:
        inspect.signature(hook).bind(None, None)
    except TypeError:
        return lambda _state, config: hook(config)
    except ValueError:
        pass  # it does not say what it takes
    return hook  # type: ignore[no-any-return]  # of either shape


def session_saving_for(session: Session) -> SessionSaving:
    """What keeps a session: files of its workspace, when `.jaato/.sessions.json` says so, else only on demand."""
    config: SessionConfig | None = None
    try:
        config = read_session_config(workspace=session.workspace)
    except ConfigError as error:
        LOG.warning("Sessions are not saved as files: %s", error)
    plugin = FileSessionPlugin()
    used = config or SessionConfig()
    plugin.initialize({"storage_path": used.storage_path, "max_sessions": used.max_sessions})
    return SessionSaving(session, plugin, used, asked_only=config is None)


def line_of(one: SavedSession) -> str:
    """A saved session in a line."""
    when = one.updated_at[:16].replace("T", " ")
    what = " ".join(replace_surrogates(one.name or one.description or "").split())
    return f"{one.session_id}  {when}  {format_count(one.turns, 'turn')}  {one.model}  {what}".rstrip()
