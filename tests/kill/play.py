"""A person at a real client, who takes a session through the whole script while its server is killed and begun again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kill.script import ACTS
from tests.kill.zygote import SOCKET

from jaato.client.connection import Client, connect
from jaato.client.session import RemoteSession
from jaato.errors import ConfigError
from jaato.protocol.commands import SessionFork, SessionSettle, TurnContinue
from jaato.protocol.events import (
    Event,
    MessageUser,
    PermissionRequested,
    SessionInfo,
    ToolCallStart,
)
from jaato.protocol.events.state import State
from jaato.protocol.frames import Opened

ROOT = Path(__file__).parents[2]


@dataclass
class Server:
    """One server: how it ended is known once it has."""

    pid: asyncio.Future[int]
    ended: asyncio.Future[int]
    boundaries: int = 0


class Zygote:
    """The process that begins servers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._servers: dict[str, Server] = {}
        self._reading = asyncio.create_task(self._read())
        self.loaded = asyncio.Event()

    def begin(self, home: Path, die_at: int) -> Server:
        """Begin a server for this home, which dies at a boundary, or at none (0)."""
        loop = asyncio.get_running_loop()
        self._servers[str(home)] = server = Server(loop.create_future(), loop.create_future())
        self._say(home=str(home), die_at=die_at)
        return server

    def load(self, names: Sequence[str]) -> None:
        """Load these modules before the next server begins."""
        self._say(load=list(names))

    def _say(self, **said: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            server = self._servers.get(told["home"])
            if server is None:
                self.loaded.set()
            elif told["what"] == "ready":
                server.pid.set_result(told["pid"])
            elif told["what"] == "counted":
                server.boundaries = told["count"]
            else:
                if not server.pid.done():
                    server.pid.set_result(0)
                server.ended.set_result(told["status"])

    async def close(self) -> None:
        """End it, and the servers that are left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def zygote() -> AsyncIterator[Zygote]:
    """The process that begins servers, while the body runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.kill.zygote",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
        cwd=ROOT,
    )
    made = Zygote(process)
    try:
        yield made
    finally:
        await made.close()


@dataclass
class Played:
    """What one passage through the script has come to, as its client and the zygote have seen it."""

    home: Path
    died: list[int] = field(default_factory=list)
    """The boundaries at which a server was killed."""
    statuses: list[int] = field(default_factory=list)
    boundaries: int = 0
    """Those of the last server, which was not killed."""
    seen: dict[str, list[Event]] = field(default_factory=dict)
    """Durable events by session, as they came."""
    since: dict[str, int] = field(default_factory=dict)
    """The event after which a session was watched."""
    states: dict[str, State] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    """How often the server has said of an answer that it counts, by question."""
    continued: int = 0


class Person:
    """Watches sessions, answers what is asked, and goes on with what was cut off."""

    def __init__(self, client: Client, played: Played) -> None:
        self._client = client
        self._played = played
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()
        self._changed = asyncio.Condition()

    def watch(self, session: RemoteSession) -> None:
        """Watch a session from now on."""
        self._played.since[session.id] = session.state.seq
        self._played.seen[session.id] = []
        self._do(self._watch(session, session.events()))

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

    async def _watch(self, session: RemoteSession, events: Any) -> None:
        at_work = True
        self._react(session, at_work=at_work)
        async for event in events:
            if event.durable:
                self._played.seen[session.id].append(event)
            if isinstance(event, SessionInfo):
                at_work = event.at_work
            self._react(session, at_work=at_work)
            async with self._changed:
                self._changed.notify_all()

    def _react(self, session: RemoteSession, *, at_work: bool) -> None:
        state = session.state
        for question_id, question in state.questions.items():
            if question_id not in self._under_way:
                self._under_way.add(question_id)
                self._do(self._answer(session, question))
        turn = state.open_turn
        root = [one for one in state.questions.values() if one.agent_id == state.root_agent_id]
        if turn is not None and not at_work and not root and turn not in self._under_way:
            self._under_way.add(turn)
            self._do(self._go_on(session, turn))

    async def _answer(self, session: RemoteSession, question: Any) -> None:
        if isinstance(question, PermissionRequested):
            settled = await session.allow(question.question_id, digest=question.digest)
        else:
            settled = await session.clarify(question.question_id, ["yes"] * len(question.questions))
        self._played.answered[question.question_id] += settled.accepted
        self._under_way.discard(question.question_id)

    async def _go_on(self, session: RemoteSession, turn: str) -> None:
        try:
            await self._client.ask(TurnContinue(session_id=session.id))
            self._played.continued += 1
        except ConfigError:
            pass  # it goes on already
        self._under_way.discard(turn)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what is known."""
        async with self._changed:
            await self._changed.wait_for(holds)

    async def perform(self, session: RemoteSession, act: str) -> None:
        """Ask for an act once no turn is open, such as one that work in the background started; wait for its end."""
        await self.until(lambda: session.state.open_turn is None)
        taken = await session.send(f"act {act}")
        await self.until(lambda: session.state.seq > taken.seq and session.state.open_turn is None)

    async def interject(self, session: RemoteSession, act: str, more: str) -> None:
        """Ask for an act, and for another while it runs."""
        await self.until(lambda: session.state.open_turn is None)
        before = session.state.seq
        await session.send(f"act {act}")
        seen = self._played.seen[session.id]
        await self.until(
            lambda: any(isinstance(event, ToolCallStart) and event.seq > before for event in reversed(seen))
        )
        await session.send(f"act {more}")
        await self.until(
            lambda: (
                session.state.open_turn is None
                and any(isinstance(one, MessageUser) and one.message.text == f"act {more}" for one in seen)
            )
        )

    async def close(self) -> None:
        """Watch no more."""
        for task in self._tasks:
            if not task.done():
                task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result


async def play(made: Zygote, home: Path, deaths: Sequence[int] = (), acts: Sequence[str] = ()) -> Played:
    """Take a session through the script, the first server killed at the first boundary named, the next at the next of its
    own, and so on; what came of it."""
    played = Played(home)
    (home / "work").mkdir(parents=True)
    server = made.begin(home, deaths[0] if deaths else 0)
    over = asyncio.Event()

    async def keep() -> None:
        nonlocal server
        left = list(deaths)
        while True:
            status = await server.ended
            played.statuses.append(status)
            if over.is_set():
                return
            played.died.append(left.pop(0) if left else -1)
            server = made.begin(home, left[0] if left else 0)

    keeping = asyncio.create_task(keep())
    await server.pid
    async with asyncio.timeout(120), connect(home / SOCKET, name="somebody") as client:
        await through(client, played, acts or list(ACTS))
    over.set()
    pid = await server.pid
    os.kill(pid, signal.SIGTERM)
    await keeping
    played.boundaries = server.boundaries
    return played


async def through(client: Client, played: Played, acts: Sequence[str]) -> None:
    """Everything a person does."""
    person = Person(client, played)
    try:
        session = await client.create(played.home / "work")
        person.watch(session)
        for act in acts:
            match act:
                case "extra":
                    continue
                case "queued":
                    await person.interject(session, act, "extra")
                case "forked":
                    opened = await client.ask(SessionFork(session_id=session.id))
                    assert isinstance(opened, Opened)
                    fork = await client.attach(opened.session_id)
                    person.watch(fork)
                    await person.perform(fork, act)
                    played.states[fork.id] = fork.state
                case _:
                    await person.perform(session, act)
        for one in list(client.sessions.values()):
            await client.ask(SessionSettle(session_id=one.id))
            await person.until(lambda: one.state.open_turn is None)  # noqa: B023 awaited at once
        await client.list()  # what was sent before it has come
        played.states = {one.id: one.state for one in client.sessions.values()}
    finally:
        await person.close()
