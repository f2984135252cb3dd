"""The server inside a program: sessions, and its sockets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from jaato.client.connection import absolute
from jaato.client.state import apply
from jaato.client.websocket import Frames
from jaato.errors import ConfigError
from jaato.protocol.commands import Command, MessageSend, SessionAttach, SessionCreate, SessionStop
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES, Result
from jaato.protocol.ids import new_id
from jaato.protocol.specs import ClientView, SessionEntry
from jaato.runtime.session_options import SessionOptions
from jaato.server.app import ServerOptions, run_server
from jaato.server.http.listeners import bind_tcp, bind_unix
from jaato.server.sessions.command_handlers import CommandHandlers
from jaato.server.sessions.creation import create
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.listing import entries


class CallbackWire:
    """A wire that passes every event, decoded, to a callback."""

    ready = True

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self._callback = callback
        self._frames = Frames()

    def write(self, frame: bytes) -> None:
        """Decode one finished frame."""
        for message in self._frames.take(frame):
            if isinstance(message, bytes) and isinstance(event := FRAMES.decode(message), Event):
                self._callback(event)


class JaatoServer:
    """One session without a user interface: takes commands, sends events to its subscribers.

    It is a client like those on sockets, in the same process. Made by a `SessionManager`.
    """

    def __init__(self, hub: Hub, session_id: str, *, answers: bool = True) -> None:
        self.session_id = session_id
        self.state: State
        self._listeners: list[Callable[[Event], None]] = []
        client = ClientView(new_id("k"), "this process", "owner", answers=answers)
        self._handlers = CommandHandlers(hub, CallbackWire(self.emit), client)
        self._handlers.handle(SessionAttach(session_id=session_id))
        self._handlers.send_pending()

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event from now on; returns a function that unsubscribes it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def emit(self, event: Event) -> None:
        """Apply an event to the state, and pass it to all subscribers."""
        if isinstance(event, SessionInfo) and event.state is not None:
            self.state = event.state
        else:
            apply(self.state, event)
        for callback in list(self._listeners):
            callback(event)

    async def execute(self, command: Command) -> Result:
        """The result of a command for this session. Raises `JaatoError`s."""
        work = self._handlers.handle(command)
        result = await work if isinstance(work, Awaitable) else work
        self._handlers.send_pending()
        return result

    async def send_message(self, text: str) -> Result:
        """Send a message to the agent; returns when it is in the log."""
        return await self.execute(MessageSend(session_id=self.session_id, text=text))

    async def stop(self) -> None:
        """Stop the running turn."""
        await self.execute(SessionStop(session_id=self.session_id))

    def leave(self) -> None:
        """Unsubscribe from the session, which continues."""
        self._handlers.leave()


class SessionManager:
    """The sessions of a server: loaded when a client attaches, evicted when idle and without clients."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def create_session(self, workspace: str | Path, **how: Any) -> JaatoServer:
        """A new session; `how` as `session.create` has it. Raises `JaatoError`s."""
        command = SessionCreate(workspace=absolute(workspace), attach=False, **how)
        _room, opened = await create(self._hub, command, wants_info=True)
        return JaatoServer(self._hub, opened.session_id)

    async def attach_session(self, session: str) -> JaatoServer:
        """A session by id, unique prefix or name, loaded if necessary. Raises `SessionNotFound`, `SessionBusy`."""
        session_id = self._hub.find(session)
        await self._hub.load(session_id, wants_info=True)
        return JaatoServer(self._hub, session_id)

    async def detach_client(self, server: JaatoServer) -> None:
        """Detach from a session, and evict it when it is idle and without other clients."""
        server.leave()
        live = self._hub.pool.loaded.get(server.session_id)
        room = self._hub.rooms.get(server.session_id)
        if live is not None and live.is_evictable and not (room is not None and room.is_watched):
            await self._hub.evict(server.session_id)

    def list_sessions(self, workspace: str | None = None, limit: int = 50) -> list[SessionEntry]:
        """Stored sessions, newest first, those in memory marked as loaded."""
        return entries(self._hub.store, self._hub.pool.loaded, self._hub.interrupted, workspace, limit)[0]

    async def delete_session(self, session: str) -> None:
        """Remove a session for good."""
        await self._hub.delete(self._hub.find(session))


class EmbeddedServer(ABC):
    """A server in this process with its sockets, while `async with` runs; `sessions` are its sessions."""

    def __init__(self, blueprint: SessionOptions | None) -> None:
        self._blueprint = blueprint or SessionOptions()
        self._stack = AsyncExitStack()
        self._sessions: SessionManager | None = None

    @property
    def sessions(self) -> SessionManager:
        """The sessions. Raises `ConfigError` before it serves."""
        if self._sessions is None:
            raise ConfigError("The server is not running: enter it with `async with`.")
        return self._sessions

    @abstractmethod
    def _open_sockets(self) -> ServerOptions:
        """Its sockets, closed with the stack."""

    async def __aenter__(self) -> Self:
        served = await self._stack.enter_async_context(run_server(self._open_sockets()))
        self._sessions = SessionManager(served.hub)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self._sessions = None
        await self._stack.__aexit__(*raised)


class JaatoIPCServer(EmbeddedServer):
    """A server at a Unix socket, for clients of the same user. Raises `ConfigError` for a path that will not do."""

    def __init__(self, socket_path: str | Path, blueprint: SessionOptions | None = None) -> None:
        super().__init__(blueprint)
        self.socket_path = Path(socket_path).absolute()

    def _open_sockets(self) -> ServerOptions:
        listener = bind_unix(self.socket_path)
        self._stack.callback(self.socket_path.unlink, missing_ok=True)
        self._stack.callback(listener.close)
        return ServerOptions([listener], base=self._blueprint)


class JaatoWSServer(EmbeddedServer):
    """A server at an address, for clients with a token. `port` is the one that was taken when 0 was asked for."""

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        blueprint: SessionOptions | None = None,
        *,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
    ) -> None:
        super().__init__(blueprint)
        self.host = host
        self.port = port
        self._names = (tuple(hosts), tuple(origins))

    def _open_sockets(self) -> ServerOptions:
        listener = bind_tcp(self.host, self.port)
        self._stack.callback(listener.close)
        self.port = listener.getsockname()[1]
        hosts, origins = self._names
        return ServerOptions([listener], hosts=hosts, origins=origins, base=self._blueprint)
