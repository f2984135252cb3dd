"""All sessions of a server: which are watched, which are at work, and what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from jaato.abc.store import Store
from jaato.errors import JaatoError, SessionBusy, SessionNotFound
from jaato.log import logger
from jaato.protocol.commands import SessionUpdate
from jaato.protocol.events import SessionUpdated
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
from jaato.tools.redaction.redactor import Redactor

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.server.sessions.session_info import SessionInfoSource

LOG = logger("server")
REMOVED = "This session was removed; there is nothing more to come."
IDLE_AFTER_S = 300.0
"""How long a session that nobody watches and that does nothing stays at hand."""


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
        self._heard = 0
        self.closing = self.news = False  # news: of sessions that not all who watch others were told of

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have sessions while the body runs; in the end every one is stopped, recorded and put down."""
        async with anyio.create_task_group() as group:
            self._asking = group
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
        """Do what no command waits for; it ends before the server does."""
        task = asyncio.get_running_loop().create_task(guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def run_turn(self, room: Room, turn: Callable[[], Awaitable[object]]) -> None:
        """Take a turn to its end, which no command waits for; who watches learns when it breaks off."""

        async def told() -> None:
            try:
                await turn()
            except JaatoError as error:
                live = self.pool.loaded.get(room.session_id)
                if live is not None and live.session.is_interrupted:
                    room.broke_off(error)
                raise
            except Exception as error:
                LOG.exception("A turn failed")
                room.broke_off(failure_of(error))

        self.spawn(told)

    @property
    def events(self) -> int:
        """How much has happened in the rooms there are and were."""
        return self._heard + sum(room.ring.end for room in self.rooms.values())

    def close_room(self, session_id: str, said: str = "") -> None:
        """Close a room, with a last word to who watches."""
        if (room := self.rooms.pop(session_id, None)) is not None:
            if said:
                room.say(said, "warning")
            self._heard += room.ring.end

    # --- rooms ---------------------------------------------------------------------------------------------------

    def find(self, text: str, workspace: str | None = None) -> str:
        """The id of the session with this id, unique prefix or name. Raises `SessionNotFound`."""
        if not text or len(text) > 200:
            raise SessionNotFound("Name a session: its id, the beginning of one, or its name.")
        return text if text in self.rooms else self.store.find(text, workspace)

    async def room(self, session_id: str) -> Room:
        """The room of a session, made if there is none; others have their turns meanwhile. Raises `SessionNotFound`."""
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
            self._settle(room)
        return room

    def _settle(self, room: Room) -> None:
        room.sessions = lambda: entries(self.store, self.pool.loaded, self.interrupted, None, 20)[0]
        room.later = asyncio.get_running_loop().call_later
        room.at_work = lambda: (
            (live := self.pool.loaded.get(room.session_id)) is not None and works(live.session)
        )
        self.rooms[room.session_id] = room

    def enter(
        self, room: Room, wire: Wire, client: ClientView, after_seq: int | None, *, deltas: bool, info: bool
    ) -> Subscription:
        """Watch a session; its questions wait for a watcher who can answer."""
        subscription = room.enter(wire, client, after_seq, deltas=deltas, info=info)
        self._answerable(room)
        return subscription

    def leave(self, room: Room, subscription: Subscription) -> None:
        """Watch a session no more; one that nobody watches is saved, where its workspace says so."""
        room.leave(subscription)
        self._answerable(room)
        if (live := self.pool.loaded.get(room.session_id)) and not room.watched and not self.closing:
            self.spawn(live.keeper.left)

    def change(self, room: Room, subscription: Subscription, client: ClientView) -> None:
        """A watcher answers questions from now on, or no longer."""
        room.change(subscription, client)
        self._answerable(room)

    # --- sessions at work ----------------------------------------------------------------------------------------

    async def load(self, session_id: str, how: Resume = AS_BEFORE, *, informs: bool = False) -> Live:
        """A session ready to work, `informs` as in `create`. Raises `SessionBusy` when another process has it, `JaatoError`s."""
        known = self.pool.loaded.get(session_id)
        if known is not None:
            known.idle_since = anyio.current_time()
            return known
        await self.pool.evict_surplus(self.evict)
        async with self.lock(session_id):
            known = self.pool.loaded.get(session_id)
            return known or await self._resumed(session_id, how, informs=informs)

    async def _resumed(self, session_id: str, how: Resume, *, informs: bool = False) -> Live:
        if self.closing:
            raise SessionBusy("The server is going down; start it again, nothing is lost.")
        room = await self.room(session_id)
        workspace = Path(room.state.workspace)
        informs = informs or room.informs
        live = await self.pool.resume(session_id, workspace, how, room.progress, informs=informs)
        room.catch_up()
        self.join(room, live)
        return live

    async def reload_session(self, session_id: str, how: Resume | None = None) -> Live | None:
        """Have a session that rests ready again, as it was or under `how`, with nobody in between; its visit goes on. None
        when it is at work. Raises `JaatoError`s; then it is as it was before, where that can be."""
        async with self.lock(session_id):
            live = self.pool.loaded.get(session_id)
            if live is None:
                return await self._resumed(session_id, how or AS_BEFORE)
            if not live.resting:
                return None
            await self.pool.evict(live)
            try:
                made = await self._resumed(session_id, how or live.how)
            except JaatoError:
                (await self._resumed(session_id, live.how)).visited_as(live)
                raise
            made.visited_as(live)
            return made

    def join(self, room: Room, live: Live) -> None:
        """What happens in the session is heard in its room."""
        session = live.session
        room.secrets, room.models = session.journal.secrets, []
        room.tools = lambda: tools_of(live)
        room.sandbox = lambda: sandbox_view(session)
        session.journal.bus.listen(room.publish)
        session.questions.early = lambda: self._go_on(room, session)
        self.news = True
        self._answerable(room)
        if session.is_interrupted:
            room.say("The turn was cut off when the server ended. What had begun was not repeated.")

    def _go_on(self, room: Room, session: Session) -> None:
        """Somebody has answered a question of a turn that was cut off: it goes on."""
        if session.is_interrupted:
            self.run_turn(room, lambda: session.resume(ask_outcomes=True))

    @cached_property
    def _surroundings(self) -> SessionInfoSource:
        from jaato.server.sessions.session_info import (
            SessionInfoSource,  # not every client wants to know them
        )

        return SessionInfoSource(self.pool.loaded, self.rooms, self.spawn)

    def _answerable(self, room: Room) -> None:
        """Let a session at work know whether anybody could answer its questions, and wants to know what surrounds it."""
        live = self.pool.loaded.get(room.session_id)
        if live is None:
            return
        if room.informs and not live.informs:
            live.informs = True
            self._surroundings.join(room, live)
        there = any(client.answers and client.role != "viewer" for client in room.clients)
        if there and room.informs and not live.listed:
            from jaato.server.sessions.session_info import learn

            live.listed = True
            self._asking.start_soon(learn, room, live)
        if there and not live.answering:
            live.leave, live.answering = live.session.questions.add_responder(patient=True), True
        elif not there and live.answering:
            live.leave()
            live.leave, live.answering = (lambda: None), False

    @asynccontextmanager
    async def lock(self, session_id: str) -> AsyncIterator[None]:
        """Keep others from opening, making or putting down a session while the body runs."""
        lock = self._opening.setdefault(session_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._opening.pop(session_id, None)

    async def evict(self, session_id: str, *, idle: bool = False) -> None:
        """Let a session rest; with `idle` only if it still is when its turn has come."""
        live = self.pool.loaded.get(session_id)
        if live is not None:
            async with self.lock(session_id):
                if idle and not self.pool.is_idle(live):
                    return
                await self.pool.evict(live)

    def _is_watched(self, session_id: str) -> bool:
        room = self.rooms.get(session_id)
        return room is not None and room.watched

    async def delete(self, session_id: str) -> None:
        """Stop a session and remove it for good; who watches it is told."""
        async with self.lock(session_id):
            if (live := self.pool.loaded.get(session_id)) is not None:
                await self.pool.evict(live)
            self.store.hold(session_id)
            try:
                await anyio.to_thread.run_sync(self.store.delete, session_id)
            finally:
                self.store.release(session_id)
            self.close_room(session_id, REMOVED)
        self.news = True

    async def update(self, session_id: str, command: SessionUpdate) -> None:
        """Give a session another name, description or model. Raises `SessionBusy` for another model in mid-turn."""
        if command.provider is not None or command.model is not None:
            await self._change_model(session_id, command)
        if command.name is not None or command.description is not None:
            journal = (await self.load(session_id)).session.journal
            name = session_name(command.name)
            journal.record(SessionUpdated(**journal.head(), name=name, description=command.description))
        (await self.room(session_id)).tell()
        self.news = True

    async def _change_model(self, session_id: str, command: SessionUpdate) -> None:
        """Go on with another model, else as before; a visit goes on either way."""
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
        """New sessions see the configuration as it is now, and those `open_sessions` when they rest, which only an owner may ask
        for: any call may have written what is read. Raises `ConfigError` for one that cannot be used; then workspaces that
        are open stay as they are."""
        try:
            settings_for(self.base, self.base.workspace or Path.home())
        except JaatoError as error:
            for room in self.rooms.values():
                room.refuse(error)
            raise
        await self.pool.renew(open_sessions=open_sessions)
        await self.renew()

    async def renew(self) -> None:
        """Take up the sessions that rest again if the configuration is another one; one that cannot be used changes nothing."""
        for session_id, live in list(self.pool.loaded.items()):
            if live.stale and live.resting:
                live.stale = False
                try:
                    self.pool.fresh(live)
                    await self.reload_session(session_id)
                except JaatoError as error:
                    if (room := self.rooms.get(session_id)) is not None:
                        room.refuse(error)


def failure_of(error: Exception) -> JaatoError:
    """What to say of a failure nobody has foreseen."""
    text = " ".join(str(error).split())[:500]
    return JaatoError(f"Something is wrong in jaato itself: {type(error).__name__}: {text}")


async def guarded(work: Callable[[], Awaitable[object]]) -> None:
    """Do something whose failure is the log's, and no command's."""
    try:
        await work()
    except JaatoError as error:
        LOG.warning("%s", error)
