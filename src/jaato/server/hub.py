"""All sessions of a server: which are watched, which are at work, and what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from jaato.abc.store import Store
from jaato.agent.suspension import go_on, suspended
from jaato.errors import JaatoError, SessionBusy, SessionNotFound
from jaato.log import logger
from jaato.protocol.commands import SessionUpdate
from jaato.protocol.events import SessionUpdated
from jaato.protocol.specs import ClientView, SessionEntry
from jaato.runtime.blueprint import Blueprint
from jaato.server.feed import Feed, Wire
from jaato.server.listing import entries, settle_rest, tools_of
from jaato.server.live import AS_BEFORE, Live, Lives, Resume
from jaato.server.opening import change_model
from jaato.server.room import Room, folded
from jaato.server.surroundings import Surroundings
from jaato.tools.secrets import Secrets

LOG = logger("server")
IDLE_AFTER_S = 300.0
"""How long a session that nobody watches and that does nothing stays at hand."""
SWEEP_S = 5.0
FOLLOW_S = 0.2
"""How often the store is looked at for a session that works in another process."""
REMEMBERED = 10_000
"""Commands with a `once` that are remembered."""


class Hub:
    """The sessions of one store. Everything happens on the loop; enter `running` once."""

    def __init__(
        self, store: Store, base: Blueprint, secrets: Secrets, *, idle_after_s: float = IDLE_AFTER_S
    ) -> None:
        self.store = store
        self.base = base
        self.secrets = secrets
        self.idle_after_s = idle_after_s
        self.lives = Lives(store, base)
        self.rooms: dict[str, Room] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self.once: dict[tuple[str, str], str] = {}
        self._surroundings = Surroundings(self)
        self._work: set[asyncio.Task[None]] = set()
        self.closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look after the sessions while the body runs; in the end every one is stopped, recorded and put down."""
        settle_rest(self.store)
        async with anyio.create_task_group() as group:
            group.start_soon(self._sweep)
            group.start_soon(self._follow)
            try:
                yield
            finally:
                self.closing = True
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self.lives.close()
            if self._work:
                await asyncio.wait(self._work)

    def begin(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do something that no command waits for; it ends before the server does."""
        task = asyncio.get_running_loop().create_task(guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    @property
    def events(self) -> int:
        """How much has happened in the rooms there are."""
        return sum(room.ring.end for room in self.rooms.values())

    # --- rooms ---------------------------------------------------------------------------------------------------

    def find(self, text: str, workspace: str | None = None) -> str:
        """The id of the session with this id, unique prefix or name. Raises `SessionNotFound`."""
        if not text or len(text) > 200:
            raise SessionNotFound("Name a session: its id, the beginning of one, or its name.")
        return text if text in self.rooms else self.store.find(text, workspace)

    def room(self, session_id: str) -> Room:
        """The room of a session, made if nobody watches it yet. Raises `SessionNotFound`."""
        room = self.rooms.get(session_id)
        if room is None:
            room = Room(self.store, self.secrets, folded(self.store, self.secrets, session_id))
            self._settle(room)
        return room

    def _settle(self, room: Room) -> None:
        room.sessions = self._listed
        room.at_work = lambda: (
            (live := self.lives.by_id.get(room.session_id)) is not None and live.session.busy
        )
        self.rooms[room.session_id] = room

    def enter(
        self, room: Room, wire: Wire, client: ClientView, after_seq: int | None, *, deltas: bool
    ) -> Feed:
        """Watch a session; a watcher who can answer keeps its questions from being answered for want of anybody."""
        feed = room.enter(wire, client, after_seq, deltas=deltas)
        self._answerable(room)
        if live := self.lives.by_id.get(room.session_id):
            self._surroundings.look(live)
        return feed

    def leave(self, room: Room, feed: Feed) -> None:
        """Watch a session no more; one that nobody watches is saved, where its workspace says so."""
        room.leave(feed)
        self._answerable(room)
        if (live := self.lives.by_id.get(room.session_id)) and not room.watched and not self.closing:
            self.begin(live.keeper.left)

    def change(self, room: Room, feed: Feed, client: ClientView) -> None:
        """A watcher answers questions from now on, or no longer."""
        room.change(feed, client)
        self._answerable(room)

    # --- sessions at work ----------------------------------------------------------------------------------------

    async def live(self, session_id: str, how: Resume = AS_BEFORE) -> Live:
        """A session ready to work. Raises `SessionBusy` when another process has it, `JaatoError`s."""
        known = self.lives.by_id.get(session_id)
        if known is not None:
            known.idle_since = anyio.current_time()
            return known
        async with self._alone(session_id):
            known = self.lives.by_id.get(session_id)
            if known is not None:
                return known
            if self.closing:
                raise SessionBusy("The server is going down; start it again, nothing is lost.")
            room = self.room(session_id)
            live = await self.lives.resume(session_id, Path(room.state.workspace), how)
            room.catch_up()
            self.join(room, live)
            return live

    def join(self, room: Room, live: Live) -> None:
        """What happens in the session is heard in its room."""
        session = live.session
        room.secrets = session.journal.secrets
        room.tools = lambda: tools_of(live)
        session.journal.bus.listen(room.hear)
        session.desk.early = lambda: self.begin(lambda: go_on(session))
        self._answerable(room)
        if suspended(session):
            room.say("The turn was cut off when the server ended. What had begun was not repeated.")
        room.tell()
        self._surroundings.join(room, live)

    def _answerable(self, room: Room) -> None:
        """Let a session at work know whether anybody could answer its questions."""
        live = self.lives.by_id.get(room.session_id)
        if live is None:
            return
        there = any(client.answers and client.role != "viewer" for client in room.clients)
        if there and not live.answering:
            live.leave, live.answering = live.session.desk.attend(patient=True), True
        elif not there and live.answering:
            live.leave()
            live.leave, live.answering = (lambda: None), False

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncIterator[None]:
        lock = self._opening.setdefault(session_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._opening.pop(session_id, None)

    def remember(self, key: tuple[str, str], session_id: str) -> None:
        self.once[key] = session_id
        while len(self.once) > REMEMBERED:
            del self.once[next(iter(self.once))]

    async def put_down(self, session_id: str, *, idle: bool = False) -> None:
        """Let a session rest; with `idle` only if it still is when its turn has come."""
        live = self.lives.by_id.get(session_id)
        if live is not None:
            async with self._alone(session_id):
                if idle and not self._idle(session_id, live):
                    return
                await self.lives.put_down(live)

    def _idle(self, session_id: str, live: Live) -> bool:
        """Whether nobody watches a session and it has done nothing for long enough."""
        room = self.rooms.get(session_id)
        return live.rests(self.idle_after_s, watched=room is not None and room.watched)

    async def delete(self, session_id: str) -> None:
        """Stop a session and remove it for good; who watches it is told by the end of its events."""
        await self.put_down(session_id)
        self.store.hold(session_id)
        try:
            self.store.delete(session_id)
        finally:
            self.store.release(session_id)
        self.rooms.pop(session_id, None)

    async def update(self, session_id: str, command: SessionUpdate) -> None:
        """Give a session another name, description or model. Raises `SessionBusy` for another model in mid-turn."""
        if command.provider is not None or command.model is not None:
            live = self.lives.by_id.get(session_id)
            if live is not None and not live.resting:
                raise SessionBusy(
                    "The agent is at work; another model can go on when its turn and tasks are over."
                )
            await change_model(self, session_id, live, command)
        if command.name is not None or command.description is not None:
            journal = (await self.live(session_id)).session.journal
            journal.record(
                SessionUpdated(**journal.head(), name=command.name, description=command.description)
            )
        self.room(session_id).tell()

    async def reload(self) -> None:
        """New sessions see the configuration as it is now; those at hand go on as they are."""
        await self.lives.renew()

    # --- lists ---------------------------------------------------------------------------------------------------

    def listed(
        self, workspace: str | None = None, limit: int = 50, before: str | None = None
    ) -> tuple[list[SessionEntry], str | None]:
        """One page of stored sessions, newest first, and the cursor of the next one."""
        return entries(self.store, self.lives.by_id, workspace, limit, before)

    def _listed(self) -> list[SessionEntry]:
        return self.listed(limit=20)[0]

    # --- looking after -------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Put down what nobody needs, again and again."""
        while True:
            await anyio.sleep(min(SWEEP_S, self.idle_after_s))
            for session_id, live in list(self.lives.by_id.items()):
                if live.passed:
                    await self.put_down(session_id)
                elif self._idle(session_id, live):
                    await self.put_down(session_id, idle=True)
            for session_id, room in list(self.rooms.items()):
                if not room.watched and session_id not in self.lives.by_id:
                    del self.rooms[session_id]
            await self.lives.sweep(self.idle_after_s)

    async def _follow(self) -> None:
        """Hear of what other processes write into sessions that are watched here."""
        while True:
            await anyio.sleep(FOLLOW_S)
            for session_id, room in list(self.rooms.items()):
                if room.watched and session_id not in self.lives.by_id:
                    try:
                        room.catch_up()
                    except SessionNotFound:
                        del self.rooms[session_id]


async def guarded(work: Callable[[], Awaitable[object]]) -> None:
    """Do something whose failure is the log's, and no command's."""
    try:
        await work()
    except JaatoError as error:
        LOG.warning("%s", error)
