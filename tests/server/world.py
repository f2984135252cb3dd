"""A whole server without sockets, to be led anywhere: its hub, its sessions, clients that come and go, and its death."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from tests.kit import call, calls, say
from tests.subagent.cast import Cast

from jaato.abc.provider import ModelRequest
from jaato.agent.questions import Waiting
from jaato.client.state import apply
from jaato.errors import JaatoError
from jaato.protocol.commands import Command, MessageSend, SessionAttach, SessionCreate
from jaato.protocol.events import (
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    PermissionGranted,
    PermissionRequested,
    PermissionResolved,
    SessionInfo,
    ToolCallEnd,
    ToolCallStart,
)
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES, Opened
from jaato.protocol.specs import ClientView
from jaato.providers.scripted import Step
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.server.sessions.command_handlers import CommandHandlers
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.maintenance import maintain_sessions
from jaato.server.sessions.session_pool import Live
from jaato.tools.redaction.redactor import Redactor

PLUGINS = ("introspection", "subagent", "file_edit", "clarification")
ROUNDS, SPUN = 5_000, 100


def act(request: ModelRequest) -> Step:
    """The model does what the last message says: `write NAME`, `two NAME`, `ask`, `delegate …`, `background …`."""
    last = request.messages[-1]
    if last.role != "user":
        return say("done")
    words = last.text.removeprefix("[parent] ").split()
    match words:
        case ["write", name]:
            return call("writeNewFile", path=name, content=name)
        case ["two", name]:
            return calls(*[("writeNewFile", {"path": f"{name}{half}", "content": ""}) for half in "ab"])
        case ["ask"]:
            return call("request_clarification", context="c", questions=[{"question": "Which?"}])
        case ["delegate", *rest]:
            return call("delegate", task=" ".join(rest))
        case ["background", *rest]:
            return call("delegate", task=" ".join(rest), background=True)
    return say("heard")


class Viewer:
    """A client on a wire that always takes what is sent, and folds it."""

    ready = True

    def __init__(self, hub: Hub, view: ClientView) -> None:
        self.view = view
        self.state = State()
        self.handlers = CommandHandlers(hub, self, view)

    def write(self, frame: bytes) -> None:
        """Take one WebSocket frame in."""
        size = frame[1]
        told = FRAMES.decode(frame[2 if size < 126 else 4 if size == 126 else 10 :])
        if isinstance(told, SessionInfo) and told.state is not None:
            self.state = told.state
        elif isinstance(told, Event):
            apply(self.state, told)

    async def ask(self, command: Command) -> Any:
        """What a command gives, or the error it is refused with."""
        try:
            await self.handlers.prepare(command)
            work = self.handlers.handle(command)
            return await work if isinstance(work, Awaitable) else work
        except JaatoError as error:
            return error
        finally:
            self.handlers.send_pending()


class World:
    """A server, its clients, and the session they are all about."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path = path
        self.work = path / "work"
        self.work.mkdir(parents=True)
        config = path / ".config/jaato"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(f"deferred_tools = false\nquestion_timeout_s = {timeout_s}\n")
        self.deaths = 0
        self.clients: dict[int, Viewer] = {}
        self.session_id = ""

    # --- the server ----------------------------------------------------------------------------------------------

    @property
    def _state_dir(self) -> Path:
        return self.path / f"state{self.deaths}"

    async def start(self) -> None:
        """Begin to serve."""
        base = SessionOptions(
            provider=Cast({"anyone": [act] * 10_000}),
            model="script",
            state_dir=self._state_dir,
            environ={"HOME": str(self.path), "PATH": "/usr/bin:/bin"},
            plugins=PLUGINS,
        )
        self.store = open_store(settings_for(base, self.work), self._state_dir)
        self.hub = Hub(self.store, base, Redactor.none())
        self._stop, begun = asyncio.Event(), asyncio.Event()
        self._serving = asyncio.create_task(self._serve(self.hub, self._stop, begun))
        await begun.wait()

    async def _serve(self, hub: Hub, stop: asyncio.Event, begun: asyncio.Event) -> None:
        async with hub.running(), maintain_sessions(hub):
            begun.set()
            await stop.wait()
        hub.store.close()

    async def end(self) -> None:
        """Stop gently; every client is gone."""
        for viewer in self.clients.values():
            viewer.handlers.leave()
        self.clients.clear()
        self._stop.set()
        await self._serving

    async def die(self) -> None:
        """Leave the disk as kill -9 would now; what the process was doing comes to nothing."""
        before = self._state_dir
        self.deaths += 1
        shutil.copytree(before, self._state_dir)
        for live in self.hub.pool.loaded.values():
            live.session.suspend()
        await self.end()

    # --- clients -------------------------------------------------------------------------------------------------

    async def attach(self, number: int, role: Any, *, answers: bool = True) -> Viewer:
        """A client comes, or comes again."""
        await self.detach(number)
        viewer = Viewer(self.hub, ClientView(f"k{number}", f"client {number}", role, answers=answers))
        self.clients[number] = viewer
        if self.session_id:
            await viewer.ask(SessionAttach(session_id=self.session_id))
        else:
            opened = await viewer.ask(SessionCreate(workspace=str(self.work)))
            assert isinstance(opened, Opened)
            self.session_id = opened.session_id
        return viewer

    async def detach(self, number: int) -> None:
        """A client leaves without a word."""
        if (viewer := self.clients.pop(number, None)) is not None:
            viewer.handlers.leave()

    async def say(self, text: str) -> None:
        """Somebody who may says something."""
        for viewer in self.clients.values():
            if viewer.view.role == "owner":
                await viewer.ask(MessageSend(session_id=self.session_id, text=text))
                return

    # --- what is so ----------------------------------------------------------------------------------------------

    @property
    def live(self) -> Live | None:
        """The session, if it is at hand."""
        return self.hub.pool.loaded.get(self.session_id)

    def waiting(self) -> dict[str, Waiting]:
        """The questions that calls of this process wait on."""
        if self.live is None:
            return {}
        return {key: one for key, one in self.live.session.questions._open.items() if not one.earlier}

    def at_work(self) -> bool:
        """Whether anything should come of itself."""
        live = self.live
        return live is not None and not live.is_evictable

    async def settle(self) -> None:
        """Until nothing more happens: all is done, or what works waits on a question. Fails when it waits on none."""
        quiet, last = 0, -1
        for turn in range(ROUNDS):
            await asyncio.sleep(0.002 if quiet or turn > SPUN else 0)
            for viewer in self.clients.values():
                viewer.handlers.send_pending()
            seq = self.store.last_seq(self.session_id) if self.session_id else 0
            over = not self.at_work() and not self.hub._work
            quiet = quiet + 1 if seq == last and (over or self.waiting()) else 0
            last = seq
            if quiet > (2 if over else 8):
                return
        raise AssertionError(f"something waits, and on no question that anybody could see: {self._story()}")

    def _story(self) -> str:
        live = self.live
        busy = live and (
            live.uses,
            live.session.is_busy,
            [child.row() for child in live.session.supervisor.working()],
        )
        newest = [(type(event).__name__, event.agent_id[-4:]) for event in self.log()[-12:]]
        return f"at work: {busy}; {len(self.hub._work)} commands; the log ends with {newest}"

    def log(self) -> list[Any]:
        """What is stored."""
        return list(self.store.read(self.session_id)) if self.session_id else []

    def check(self) -> None:
        """What holds at any moment: calls wait on questions that everybody sees, and a question is of one call."""
        if not self.session_id:
            return
        log = self.log()
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        asked = {e.question_id for e in log if isinstance(e, PermissionRequested | ClarificationQuestion)}
        ends = [e.question_id for e in log if isinstance(e, PermissionResolved | ClarificationResolved)]
        assert len(ends) == len(set(ends)), "a question was settled twice"
        is_open = asked - set(ends)
        assert set(self.waiting()) <= is_open, "a call waits on a question that no log has"
        if self.live is not None:
            assert set(self.live.session.questions._open) == is_open, (
                "a question is shown that no call waits on"
            )
        for viewer in self.clients.values():
            assert set(viewer.state.questions) == is_open, "a client sees other questions than there are"
        begun = [event.call_id for event in log if isinstance(event, ToolCallStart)]
        assert len(begun) == len(set(begun)), "a call was begun twice"
        done = [event.call_id for event in log if isinstance(event, ToolCallEnd)]
        assert len(done) == len(set(done)), "a call ended twice"
        written = {path.name for path in self.work.iterdir() if path.is_file()}
        allowed = {
            event.call_id for event in log if isinstance(event, PermissionResolved) and consents(event)
        }
        paths = {e.arguments.get("path"): e.call_id for e in log if isinstance(e, ToolCallStart)}
        early = written - set(paths)
        assert not early, f"{early} was written before the log said that it would be; {self._story()}"
        granted = any(isinstance(event, PermissionGranted) for event in log)
        assert granted or all(paths[name] in allowed for name in written), "a file nobody allowed was written"


def consents(event: PermissionResolved) -> bool:
    """Whether a question was answered with yes."""
    return event.permission.decision == "allowed"
