"""Persists sessions as files through a session plugin, whose hooks follow the session's events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from jaato.abc.session_plugin import SavedSession, SessionConfig, SessionPlugin
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.log import logger
from jaato.plugins.session import FileSessionPlugin, read_session_config
from jaato.protocol.events import ErrorRaised, Event, TurnCompleted
from jaato.protocol.messages import Problem
from jaato.runtime.plugins.isolation import BROKEN, run_bounded, short_message
from jaato.runtime.session_files import (
    SESSION_PLUGINS,
    RestoreTarget,
    export_state,
    head_of,
    import_saved,
    place_plugin,
)
from jaato.tools.call import problem_of, replace_surrogates

LOG = logger("session")
T = TypeVar("T")
Hook = Callable[[SavedSession, SessionConfig], None]
HOOK_S = 60.0
"""How long a plugin may take for one thing."""


class SessionSaving:
    """One session and what keeps it. Everything but the plugin's own methods happens on the loop.

    With `asked_only` nothing is saved unless somebody says so: the workspace has no settings for it.
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
            SESSION_PLUGINS.checked(plugin, str(getattr(plugin, "name", plugin))), self._session.workspace
        )
        self.config = config
        self._asked_only = asked_only
        self._silence()
        if not asked_only:
            self._silence = self._session.journal.bus.listen(self._hear)

    async def use(self, plugin: SessionPlugin, config: SessionConfig) -> None:
        """Another plugin keeps the session from now on. Raises `PluginError` for what is none."""
        await self.settled()
        self._take(plugin, config, asked_only=False)
        await self.begin()

    async def begin(self) -> None:
        """The session has begun, or goes on."""
        if not self._asked_only:
            hook = self._hook(self.plugin.on_session_start, head_of(self._session))
            await self._told(hook, "on_session_start")

    def _hear(self, event: Event) -> None:
        if isinstance(event, TurnCompleted) and event.agent_id == self._session.state.agent_id:
            task = asyncio.get_running_loop().create_task(self._turn())
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)

    async def _turn(self) -> None:
        head, every = head_of(self._session), self.config.checkpoint_after_turns
        if every and head.turns % every == 0:
            await self._told(self._save, "save", aloud=True)
        await self._told(self._hook(self.plugin.on_turn_complete, head), "on_turn_complete", aloud=True)

    def _hook(self, hook: Hook, head: SavedSession) -> Callable[[], Awaitable[None]]:
        config = self.config
        return lambda: self._run(lambda: hook(head, config))

    async def settled(self) -> None:
        """Wait until the plugin has heard of everything so far."""
        while self._hooks:
            await asyncio.wait(self._hooks)

    async def _told(self, work: Callable[[], Awaitable[object]], what: str, *, aloud: bool = False) -> None:
        """Do something nobody waits for; what fails is logged, with `aloud` in the session too, and harms nobody."""
        try:
            await work()
        except BROKEN as error:
            said = f"The session plugin {self.plugin.name} failed in {what}: {short_message(error)}"
            LOG.warning("%s", said)
            if aloud:
                self._raise(Problem(problem_of(error).code, said))

    def _raise(self, problem: Problem) -> None:
        """Say in the session that something failed, if it still can be said."""
        journal = self._session.journal
        with contextlib.suppress(JaatoError):
            journal.record(ErrorRaised(**journal.head(), error=problem))

    async def _run(self, work: Callable[[], T]) -> T:
        """What the plugin gives, in a thread and in its time."""
        said = f"The session plugin {self.plugin.name}"
        async with self._lock:
            return await anyio.to_thread.run_sync(lambda: run_bounded(HOOK_S, work, said))

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
        await self.settled()
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
            session_id = await self._saved_id(text)
        found = await self._run(lambda: self.plugin.load(session_id))
        if found.session_id != session_id:
            raise ConfigError(f"The saved session {session_id} is another one: {found.session_id[:60]!r}.")
        return import_saved(store, found, RestoreTarget.of(state))

    async def _saved_id(self, text: str) -> str:
        saved = await self.saved_sessions()
        exact = [one.session_id for one in saved if text in (one.session_id, one.name)]
        found = exact or [one.session_id for one in saved if text and one.session_id.startswith(text)]
        if len(found) != 1:
            which = "There are several" if found else "There is no"
            raise SessionNotFound(f"{which} session {text[:60]!r}, stored or saved; `sessions` lists them.")
        return found[0]

    # --- the end -----------------------------------------------------------------------------------------------

    async def left(self) -> None:
        """Nobody watches any more: save what has happened since the last time, if the settings say so."""
        state = self._session.state
        if self._asked_only or not self.config.auto_save_on_exit or not state.turns:
            return
        await self.settled()
        if self._seq > self._saved_seq:
            await self._told(self._save, "save")

    async def end(self) -> None:
        """The session ends here: it is saved as when nobody watches it, and the plugin hears of it."""
        await self.left()
        self._silence()
        if not self._asked_only:
            hook = self._hook(self.plugin.on_session_end, head_of(self._session))
            await self._told(hook, "on_session_end")


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
    return f"{one.session_id}  {when}  {one.turns} turns  {one.model}  {what}".rstrip()
