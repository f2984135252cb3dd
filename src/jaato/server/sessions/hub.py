"""The hub of a server: rooms with their subscribers, loaded sessions, and the operations on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from jaato.abc.store import Store
from jaato.errors import JaatoError, SessionBusy, SessionNotFound
from jaato.log import logger
from jaato.protocol.commands import SessionUpdate
from jaato.protocol.events import SessionUpdated
from jaato.protocol.frames import Pairing, Role
from jaato.protocol.ids import session_name
from jaato.protocol.specs import ClientView
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.user_commands import sandbox_view
from jaato.server.sessions.interrupted import InterruptedSessions
from jaato.server.sessions.listing import entries, tools_of
from jaato.server.sessions.room import Room
from jaato.server.sessions.session_pool import AS_BEFORE, Live, Resume, SessionPool, works
from jaato.server.sessions.snapshot import StateFold
from jaato.server.sessions.subscription import Subscription, Wire
from jaato.server.sessions.wake import Waker
from jaato.tools.redaction.redactor import Redactor

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.server.sessions.session_info import SessionInfoSource
    from jaato.server.sessions.workspace_files import WorkspaceFiles

LOG = logger("server")
IDLE_AFTER_S = 300.0
"""How long a session without subscribers and work stays loaded."""


class Hub:
    """The sessions of one store. Everything happens on the loop; enter `running` once."""

    def __init__(
        self, store: Store, base: SessionOptions, secrets: Redactor, *, idle_after_s: float = IDLE_AFTER_S
    ) -> None:
        self.store = store
        self.base = base
        self.secrets = secrets
        self.rooms: dict[str, Room] = {}
        self.idle_after_s = idle_after_s
        self.pool = SessionPool(store, base, self._is_watched, idle_after_s)
        self.interrupted = InterruptedSessions(store)
        self._opening: dict[str, anyio.Lock] = {}
        self.once: dict[tuple[str, str], str] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._closed_events = 0
        self.closing = False
        self.pair_browser: Callable[[Role], Awaitable[Pairing]] | None = None
        """Makes the link of `pairing.create`; None where there is no page."""
        self.titles: dict[str, str] = {}
        """By session, the beginning of its first message, which titles it in lists until it has a name."""
        self.list_changed = False
        """Whether the list of sessions has changed since it was last published."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve sessions while the body runs; then every one is stopped, recorded and closed."""
        async with anyio.create_task_group() as group:
            self._task_group = group
            try:
                yield
            finally:
                self.closing = True
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self.pool.close()
            if self._work:
                await asyncio.wait(self._work)

    def spawn(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run a task that no command waits for; it ends before the server does."""
        task = asyncio.get_running_loop().create_task(run_guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def run_turn(self, room: Room, turn: Callable[[], Awaitable[object]]) -> None:
        """Run a turn to its end in a task; its failure is published."""

        async def run_and_report() -> None:
            try:
                await turn()
            except JaatoError as error:
                live = self.pool.loaded.get(room.session_id)
                if live is not None and live.session.is_interrupted:
                    room.publish_turn_failure(error)
                raise
            except Exception as error:
                LOG.exception("A turn failed")
                room.publish_turn_failure(failure_of(error))

        self.spawn(run_and_report)

    @property
    def events(self) -> int:
        """The number of events published since the start."""
        return self._closed_events + sum(room.ring.end for room in self.rooms.values())

    def close_room(self, session_id: str, *, is_deleted: bool = False) -> None:
        """Close a room, that of a deleted session after a notice to its subscribers."""
        if (room := self.rooms.pop(session_id, None)) is not None:
            if is_deleted:
                room.publish_deletion()
            self._closed_events += room.ring.end

    # --- rooms ---------------------------------------------------------------------------------------------------

    def find(self, text: str, workspace: str | None = None) -> str:
        """The id of the session with this id, unique prefix or name. Raises `SessionNotFound`."""
        if not text or len(text) > 200:
            raise SessionNotFound("Name a session: its id, the beginning of one, or its name.")
        return text if text in self.rooms else self.store.find(text, workspace)

    async def room(self, session_id: str) -> Room:
        """The room of a session, created from the log in steps if there is none. Raises `SessionNotFound`."""
        if (room := self.rooms.get(session_id)) is not None:
            return room
        async with self.lock(f"room {session_id}"):
            if (room := self.rooms.get(session_id)) is not None:
                return room
            folding = StateFold(self.store, self.secrets, session_id)
            for _ in folding:
                await asyncio.sleep(0)
            room = Room(self.store, self.secrets, folding.state, folding.recall)
            room.catch_up()
            self._connect(room)
        return room

    def _connect(self, room: Room) -> None:
        room.sessions = lambda: entries(self.store, self.pool.loaded, self.interrupted, None, 20)[0]
        room.call_later = asyncio.get_running_loop().call_later
        room.at_work = lambda: (
            (live := self.pool.loaded.get(room.session_id)) is not None and works(live.session)
        )
        self.rooms[room.session_id] = room

    def subscribe(
        self, room: Room, wire: Wire, client: ClientView, after_seq: int | None, *, deltas: bool, info: bool
    ) -> Subscription:
        """Subscribe to a session; its questions wait while a subscriber can answer them."""
        subscription = room.subscribe(wire, client, after_seq, deltas=deltas, info=info)
        self._update_responder(room)
        return subscription

    def unsubscribe(self, room: Room, subscription: Subscription) -> None:
        """Unsubscribe from a session; without subscribers it is saved, where its workspace has that configured."""
        room.unsubscribe(subscription)
        self._update_responder(room)
        if (live := self.pool.loaded.get(room.session_id)) and not room.is_watched and not self.closing:
            self.spawn(live.keeper.on_detach)

    def update_client(self, room: Room, subscription: Subscription, client: ClientView) -> None:
        """Update a subscriber, which may answer questions from now on, or no longer."""
        room.update_client(subscription, client)
        self._update_responder(room)

    # --- sessions at work ----------------------------------------------------------------------------------------

    async def load(self, session_id: str, how: Resume = AS_BEFORE, *, wants_info: bool = False) -> Live:
        """Load a session, `wants_info` as in `create`. Raises `SessionBusy` when another process has it, `JaatoError`s."""
        known = self.pool.loaded.get(session_id)
        if known is not None:
            known.idle_since = anyio.current_time()
            return known
        await self.pool.evict_surplus(self.evict)
        async with self.lock(session_id):
            known = self.pool.loaded.get(session_id)
            return known or await self._resume(session_id, how, wants_info=wants_info)

    async def _resume(self, session_id: str, how: Resume, *, wants_info: bool = False) -> Live:
        if self.closing:
            raise SessionBusy("The server is going down; start it again, nothing is lost.")
        room = await self.room(session_id)
        workspace = Path(room.state.workspace)
        wants_info = wants_info or room.wants_info
        live = await self.pool.resume(
            session_id, workspace, how, room.publish_progress, wants_info=wants_info
        )
        # While nothing was loaded or watched, the sweep may have closed the room.
        room = await self.room(session_id)
        room.catch_up()
        self.attach_live(room, live)
        return live

    async def reload_session(self, session_id: str, how: Resume | None = None) -> Live | None:
        """Reload an idle session, unchanged or under `how`, under its lock; its visit continues. None when it is busy.
        Raises `JaatoError`s after loading it as before, where that is possible."""
        async with self.lock(session_id):
            live = self.pool.loaded.get(session_id)
            if live is None:
                return await self._resume(session_id, how or AS_BEFORE)
            if not live.is_evictable:
                return None
            await self.pool.evict(live)
            try:
                made = await self._resume(session_id, how or live.how)
            except JaatoError:
                (await self._resume(session_id, live.how)).take_over_visit(live)
                raise
            made.take_over_visit(live)
            return made

    def attach_live(self, room: Room, live: Live) -> None:
        """Connect a loaded session to its room."""
        session = live.session
        room.secrets, room.models = session.journal.secrets, []
        room.tools = lambda: tools_of(live)
        room.sandbox = lambda: sandbox_view(session)
        session.services["client_files"] = room.client_files
        session.journal.bus.listen(room.publish)
        if live.entry.factory.settings["wake_idle_agent"]:
            session.journal.bus.listen(Waker(live, partial(self.run_turn, room)))
        session.questions.early = lambda: self._resume_turn(room, session)
        self.list_changed = True
        self._update_responder(room)
        if session.is_interrupted:
            room.publish_notice(
                "The turn was cut off when the server ended. What had begun was not repeated."
            )

    def _resume_turn(self, room: Room, session: Session) -> None:
        """Resume an interrupted turn after an answer to its question."""
        if session.is_interrupted:
            self.run_turn(room, lambda: session.resume(ask_outcomes=True))

    @cached_property
    def _session_info(self) -> SessionInfoSource:
        from jaato.server.sessions.session_info import (
            SessionInfoSource,  # not every client wants to know them
        )

        return SessionInfoSource(self.pool.loaded, self.rooms, self.spawn)

    @cached_property
    def files(self) -> WorkspaceFiles:
        """Finds files of workspaces by parts of their path."""
        from jaato.server.sessions.workspace_files import WorkspaceFiles

        return WorkspaceFiles()

    def _update_responder(self, room: Room) -> None:
        """Update whether a loaded session has a responder for its questions, and whether it publishes information."""
        live = self.pool.loaded.get(room.session_id)
        if live is None:
            return
        if room.wants_info and not live.wants_info:
            live.wants_info = True
            self._session_info.attach(room, live)
        there = any(client.answers and client.role != "viewer" for client in room.clients)
        if there and room.wants_info and not live.models_requested:
            from jaato.server.sessions.session_info import publish_models

            live.models_requested = True
            self._task_group.start_soon(publish_models, room, live)
        if there and not live.has_responder:
            live.leave, live.has_responder = live.session.questions.add_responder(patient=True), True
        elif not there and live.has_responder:
            live.leave()
            live.leave, live.has_responder = (lambda: None), False

    @asynccontextmanager
    async def lock(self, session_id: str) -> AsyncIterator[None]:
        """Hold the lock of a session against loading, creation and eviction while the body runs."""
        lock = self._opening.setdefault(session_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._opening.pop(session_id, None)

    async def evict(self, session_id: str, *, when: Callable[[Live], bool] = lambda _: True) -> None:
        """Evict a session from memory, when this holds for it under the lock."""
        if session_id in self.pool.loaded:
            async with self.lock(session_id):
                live = self.pool.loaded.get(session_id)
                if live is not None and when(live):
                    await self.pool.evict(live)

    def _is_watched(self, session_id: str) -> bool:
        room = self.rooms.get(session_id)
        return room is not None and room.is_watched

    async def delete(self, session_id: str) -> None:
        """Stop a session and delete it; its subscribers get a notice."""
        async with self.lock(session_id):
            if (live := self.pool.loaded.get(session_id)) is not None:
                await self.pool.evict(live)
            self.store.hold(session_id)
            try:
                await anyio.to_thread.run_sync(self.store.delete, session_id)
            finally:
                self.store.release(session_id)
            self.close_room(session_id, is_deleted=True)
        self.list_changed = True

    async def update(self, session_id: str, command: SessionUpdate) -> None:
        """Update the name, description or model of a session. Raises `SessionBusy` for another model during a turn."""
        if command.provider is not None or command.model is not None:
            await self._change_model(session_id, command)
        if command.name is not None or command.description is not None:
            journal = (await self.load(session_id)).session.journal
            name = session_name(command.name)
            journal.record(SessionUpdated(**journal.head(), name=name, description=command.description))
        (await self.room(session_id)).publish_info()
        self.list_changed = True

    async def _change_model(self, session_id: str, command: SessionUpdate) -> None:
        """Reload a session with another model; its visit continues."""
        live = self.pool.loaded.get(session_id)
        before = live.how if live is not None else AS_BEFORE
        if (
            await self.reload_session(
                session_id, replace(before, provider=command.provider, model=command.model)
            )
            is None
        ):
            raise SessionBusy(
                "The agent is at work; another model can go on when its turn and tasks are over."
            )

    async def reload(self, *, open_sessions: bool) -> None:
        """Reload the configuration for new sessions, and with `open_sessions` for loaded ones once they are idle, which only an
        owner may request: any call may have written the files. Raises `ConfigError` for an invalid one; then open
        workspaces keep theirs."""
        try:
            settings_for(self.base, self.base.workspace or Path.home())
        except JaatoError as error:
            for room in self.rooms.values():
                room.publish_config_error(error)
            raise
        await self.pool.reload_factories(open_sessions=open_sessions)
        await self.reload_stale()

    async def reload_stale(self) -> None:
        """Reload idle sessions whose configuration has changed; an invalid one changes nothing."""
        for session_id, live in list(self.pool.loaded.items()):
            if live.stale and live.is_evictable:
                live.stale = False
                try:
                    self.pool.check_resumable(live)
                    await self.reload_session(session_id)
                except JaatoError as error:
                    if (room := self.rooms.get(session_id)) is not None:
                        room.publish_config_error(error)


def failure_of(error: Exception) -> JaatoError:
    """The error for an unexpected failure."""
    text = " ".join(str(error).split())[:500]
    return JaatoError(f"Something is wrong in jaato itself: {type(error).__name__}: {text}")


async def run_guarded(work: Callable[[], Awaitable[object]]) -> None:
    """Run a task and log its failure."""
    try:
        await work()
    except JaatoError as error:
        LOG.warning("%s", error)
