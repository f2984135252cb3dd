"""What the tests of the server share: a real server on real sockets, and a raw client of its WebSocket."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect

from jaato.abc.provider import Provider
from jaato.client.state import apply
from jaato.protocol.events import Event, SessionInfo, TurnCompleted
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES, Opened, Reply, Welcome
from jaato.providers.scripted import Answer, ScriptedProvider
from jaato.runtime.session_options import SessionOptions
from jaato.server.app import ServerOptions, run_server
from jaato.server.http.listeners import bind_unix
from jaato.server.sessions.hub import Hub


class Served:
    """A server in this process: its hub, its socket, its TCP port and the owner's token."""

    def __init__(self, hub: Hub, path: Path, port: int, token: str) -> None:
        self.hub = hub
        self.path = path
        self.port = port
        self.token = token

    @asynccontextmanager
    async def client(self, name: str = "", **options: Any) -> AsyncIterator[Raw]:
        """A client on the Unix socket, greeted."""
        async with unix_connect(str(self.path), "ws://jaato/v1/connect", compression=None, **options) as ws:
            raw = Raw(ws)
            await raw.hello(name)
            yield raw

    @asynccontextmanager
    async def remote(self, **options: Any) -> AsyncIterator[Raw]:
        """A client over TCP, which has said nothing yet."""
        url = f"ws://127.0.0.1:{self.port}/v1/connect"
        async with connect(url, compression=None, proxy=None, **options) as ws:
            yield Raw(ws)


@asynccontextmanager
async def served(
    path: Path, script: Sequence[Answer] | Provider, idle_after_s: float = 300.0, **base: Any
) -> AsyncIterator[Served]:
    """A server whose sessions are answered by a script, and put down after so long without work or watchers."""
    state = path / "state"
    work = path / "work"
    work.mkdir(parents=True, exist_ok=True)
    blueprint = SessionOptions(
        provider=ScriptedProvider(script) if isinstance(script, Sequence) else script,
        model="script",
        state_dir=state,
        **({"environ": {"HOME": str(path), "PATH": "/usr/bin:/bin"}} | base),
    )
    tcp = socket.create_server(("127.0.0.1", 0))
    address = path / "run/jaato.sock"
    async with run_server(
        ServerOptions([bind_unix(address), tcp], base=blueprint, idle_after_s=idle_after_s)
    ) as server:
        token = (state / "server-token").read_text().strip()
        yield Served(server.hub, address, tcp.getsockname()[1], token)


class Raw:
    """A connection, frame by frame, with the state of every session it watches."""

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws
        self.events: list[Event] = []
        self.states: dict[str, State] = {}
        self._ids = 0

    async def hello(self, name: str = "", **fields: Any) -> Welcome:
        """The greeting."""
        await self.ws.send(json.dumps({"type": "hello", "protocol": 1, "name": name, **fields}))
        welcome = FRAMES.decode(await self.ws.recv())
        assert isinstance(welcome, Welcome)
        return welcome

    async def ask(self, type: str, **fields: Any) -> Reply:  # noqa: A002 the field's name
        """The reply to a command; events that come before it are taken in."""
        self._ids += 1
        await self.ws.send(json.dumps({"type": type, "id": str(self._ids), **fields}))
        while True:
            frame = await self.next()
            if isinstance(frame, Reply) and frame.id == str(self._ids):
                return frame

    async def next(self) -> Any:
        """The next frame, taken in."""
        frame = FRAMES.decode(await self.ws.recv())
        if isinstance(frame, SessionInfo) and frame.state is not None:
            self.states[frame.session_id] = frame.state
        elif isinstance(frame, Event):
            apply(self.states[frame.session_id], frame)
        if isinstance(frame, Event):
            self.events.append(frame)
        return frame

    async def until(self, kind: type[Any]) -> Any:
        """The next event of a kind."""
        while not isinstance(frame := await self.next(), kind):
            pass
        return frame


async def opened(client: Raw, workspace: Path) -> str:
    """A session of this client's in a workspace."""
    workspace.mkdir(exist_ok=True)
    made = await client.ask("session.create", workspace=str(workspace))
    assert isinstance(made.result, Opened), made.error
    return made.result.session_id


async def turn_of(client: Raw, session_id: str, text: str = "hello") -> TurnCompleted:
    """Say something; how the turn ended."""
    client.events.clear()
    sent = await client.ask("message.send", text=text, session_id=session_id)
    assert sent.error is None, sent.error
    ended = [event for event in client.events if isinstance(event, TurnCompleted)]
    done = ended[0] if ended else await client.until(TurnCompleted)
    assert isinstance(done, TurnCompleted)
    return done
