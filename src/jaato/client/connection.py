"""The asynchronous client: reconnects with exponential backoff and resumes each session at its cursor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from jaato.client.address import (
    CONNECT_S,
    FIRST_PAUSE_S,
    GIVE_UP_AFTER_S,
    LONGEST_PAUSE_S,
    Address,
    address_of,
    no_answer,
)
from jaato.client.blocking import Transport, understood
from jaato.client.session import RemoteSession
from jaato.client.state import apply
from jaato.client.websocket_transport import WebSocketTransport
from jaato.errors import ConfigError, ConnectionFault, JaatoError, ServerGone, SessionBusy
from jaato.protocol.codec import encode
from jaato.protocol.commands import (
    Command,
    CommandExecute,
    FileResponse,
    MessageSend,
    ServedFiles,
    SessionAttach,
    SessionCreate,
    SessionFork,
    SessionList,
    resume_command,
)
from jaato.protocol.events import Event, InitProgress, SessionInfo
from jaato.protocol.frames import (
    PROTOCOL,
    FileRequest,
    Hello,
    Opened,
    Reply,
    Result,
    Sessions,
    Welcome,
    answer,
)

OnFile = Callable[[FileRequest], Awaitable[FileResponse]]


class Client:
    """A connection to a server that reconnects with backoff whenever it is lost. Make it with `connect`.

    A command whose reply was lost with the connection is sent again where that cannot do harm; one that can (a user command)
    fails with `ServerGone`, its outcome unknown.
    """

    def __init__(
        self, connect_transport: Callable[[], Awaitable[Transport]], name: str, address: Address | None = None
    ) -> None:
        self._connect_transport = connect_transport
        self._address = address
        self._name = name
        self._transport: Transport | None = None
        self.in_process = False
        """Whether the server runs in this process: there is no reconnecting after it has ended."""
        self._there = asyncio.Event()
        self._waiting: dict[str, tuple[Command, asyncio.Future[Result]]] = {}
        self._unsent: set[str] = set()
        """The commands that no connection has taken yet, by id."""
        self._ids = 0
        self._closing = False
        self._lost: JaatoError | None = None
        self._pause = FIRST_PAUSE_S
        self._until = 0.0
        """Deadline for reconnecting, in the time of the loop; 0 while connected."""
        self._welcome: Welcome | None = None
        self.sessions: dict[str, RemoteSession] = {}
        self._on_file: OnFile | None = None
        self._held: dict[str, list[Command]] = {}
        """By the id of a command that opens a session again, those for it that are sent once it has been answered."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_connection: Callable[[bool], None] = lambda _there: None
        """Called with False on a disconnect and with True after a reconnect."""
        self.on_progress: Callable[[InitProgress], None] = lambda _event: None
        """Called with the progress of what a new session waits for."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._there.is_set()

    @property
    def socket(self) -> Path | None:
        """The Unix socket of the server; None where it is reached otherwise."""
        return None if self._address is None else self._address.path

    @property
    def welcome(self) -> Welcome:
        """The `welcome` frame of the latest connection."""
        assert self._welcome is not None
        return self._welcome

    # --- commands --------------------------------------------------------------------------------------------------

    async def create(self, workspace: str | Path, **how: Any) -> RemoteSession:
        """Begin a session in a workspace and watch it; `how` as `session.create` has it."""
        command = SessionCreate(workspace=absolute(workspace), once=word(), **how)
        opened = await self.ask(command)
        assert isinstance(opened, Opened)
        return await self._wait_for_state(opened.session_id)

    async def attach(
        self, session: str, serves_files: ServedFiles | None = None, on_file: OnFile | None = None
    ) -> RemoteSession:
        """Watch a session, by id, unique prefix or name. With `serves_files`, file tools of the session read or also write
        text by `on_file`, which answers each request in a task of its own. Raises `SessionNotFound`."""
        if on_file is not None:
            self._on_file = on_file
        opened = await self.ask(SessionAttach(session_id=session, serves_files=serves_files))
        assert isinstance(opened, Opened)
        watched = self._session(opened.session_id)
        watched.serves_files, watched.is_mode_switched = serves_files, False
        return await self._wait_for_state(opened.session_id)

    async def resume(self, session: RemoteSession, creation: SessionCreate) -> None:
        """Resume a session after a reconnect with the options of the command that has opened it, unless another client has.
        Raises `JaatoError`."""
        with contextlib.suppress(SessionBusy):
            await self.ask(resume_command(creation, session.id, is_mode_switched=session.is_mode_switched))

    async def list(self, workspace: str | None = None, limit: int = 50) -> Sessions:
        """Stored sessions, newest first."""
        found = await self.ask(SessionList(workspace=workspace, limit=limit))
        assert isinstance(found, Sessions)
        return found

    async def ask(self, command: Command) -> Result:
        """The result of any command. Raises the `JaatoError` the server answers with."""
        self._ids += 1
        asked = msgspec.structs.replace(command, id=str(self._ids))
        if self.in_process:
            pass  # nothing is lost between the two
        elif isinstance(asked, MessageSend | SessionCreate | SessionFork) and not asked.once:
            asked = msgspec.structs.replace(asked, once=word())
        reply: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            raise self._lost
        self._waiting[asked.id] = (asked, reply)
        try:
            with contextlib.suppress(ConnectionFault):
                self._send(asked)
            return await reply
        finally:
            self._waiting.pop(asked.id, None)
            self._unsent.discard(asked.id)

    def _send(self, command: Command) -> None:
        """Send a command, or keep that it was not: it is sent after the reconnect. Raises `ConnectionFault`."""
        self._unsent.add(command.id)
        if self._transport is not None:
            self._transport.send(encode(command))
            self._unsent.discard(command.id)

    async def _wait_for_state(self, session_id: str) -> RemoteSession:
        session = self._session(session_id)
        await session.known()
        return session

    def _session(self, session_id: str) -> RemoteSession:
        session = self.sessions.get(session_id)
        if session is None:
            session = self.sessions[session_id] = RemoteSession(self.ask, session_id)
        return session

    # --- the connection ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect for the first time. Raises `ServerGone` when there is no server."""
        self._begin(*await self._open())

    async def _open(self) -> tuple[Transport, Welcome]:
        """A connection that is ready for commands. Raises `ServerGone`, or what the server refuses with."""
        transport = await self._connect_transport()
        try:
            async with asyncio.timeout(CONNECT_S):
                transport.send(encode(Hello(PROTOCOL, client="jaato", name=self._name)))
                welcome = understood(await transport.receive())
            if not isinstance(welcome, Welcome):
                raise ServerGone("The server does not greet.")
        except TimeoutError:
            transport.drop()
            raise no_answer(self._address) from None
        except BaseException:
            transport.drop()
            raise
        return transport, welcome

    def _begin(self, transport: Transport, welcome: Welcome) -> None:
        self._transport, self._welcome, self.in_process = transport, welcome, transport.in_process
        self._held.clear()
        opening: dict[str, str] = {}
        for command, _ in list(self._waiting.values()):
            if isinstance(command, SessionCreate):
                self._send(command)  # first: anything else would open the session with other options
                if command.session_id:
                    opening[command.session_id] = command.id
                    self._held[command.id] = []
        for session in self.sessions.values():
            if session.watched:
                transport.send(encode(session.attachment()))
        for command, reply in list(self._waiting.values()):
            if isinstance(command, CommandExecute) and command.id not in self._unsent:
                reply.set_exception(
                    ServerGone("The connection was lost; whether the command was carried out is not known.")
                )
            elif isinstance(command, SessionCreate):
                pass
            elif command.session_id in opening:
                self._held[opening[command.session_id]].append(command)
            else:
                self._send(command)
        self._there.set()
        self.on_connection(True)

    async def keep(self) -> None:
        """Read frames; reconnect after a disconnect, until the deadline has passed."""
        while not self._closing:
            try:
                await self._read()
            except JaatoError as error:
                if self._closing:
                    return
                self._there.clear()
                if self._transport is not None:
                    self._transport.drop()
                    self._transport = None
                if self.in_process:
                    self._fail(error)
                    raise
                self.on_connection(False)
                await self._reconnect(error)

    async def _reconnect(self, lost: JaatoError) -> None:
        now = asyncio.get_running_loop().time
        self._until = self._until or now() + GIVE_UP_AFTER_S
        while True:
            if now() > self._until:
                self._fail(lost)
                raise lost
            await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311 jitter
            self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
            try:
                transport, welcome = await self._open()
                try:
                    self._begin(transport, welcome)
                except ConnectionFault:
                    transport.drop()
                    raise
                return
            except ConnectionFault as error:
                lost = error
            except JaatoError as error:
                self._fail(error)
                raise error from lost

    def _fail(self, error: JaatoError) -> None:
        self._lost = error
        self._fail_waiting(error)
        for session in self.sessions.values():
            session.end(error)

    def _fail_waiting(self, error: JaatoError) -> None:
        for _, reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(error)

    async def _read(self) -> None:
        transport = self._transport
        assert transport is not None
        while True:
            message = understood(await transport.receive())
            if self._until:  # connected again only when frames follow the greeting
                self._pause, self._until = FIRST_PAUSE_S, 0.0
            if isinstance(message, Reply):
                self._on_reply(message)
            elif isinstance(message, Event):
                self._on_event(message)
            elif isinstance(message, FileRequest) and self._on_file is not None:
                task = asyncio.get_running_loop().create_task(self._answer_file(message, self._on_file))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer_file(self, request: FileRequest, on_file: OnFile) -> None:
        with contextlib.suppress(JaatoError):  # the connection is lost, and with it the request
            await self.ask(await on_file(request))

    def _on_reply(self, reply: Reply) -> None:
        self._send_held(reply.id)
        command, waiting = self._waiting.get(reply.id, (None, None))
        if command is None or waiting is None or waiting.done():
            return
        if isinstance(command, SessionCreate | SessionAttach) and isinstance(reply.result, Opened):
            self._session(reply.result.session_id)
        match answer(command, reply):
            case JaatoError() as error:
                waiting.set_exception(error)
            case result:
                waiting.set_result(result)

    def _send_held(self, answered: str) -> None:
        """Send what has waited until a session is open again, to which this client serves files as before."""
        held = [command for command in self._held.pop(answered, ()) if command.id in self._waiting]
        session = self.sessions.get(held[0].session_id) if held else None
        if session is not None and session.serves_files:
            held.insert(0, session.attachment())
        for command in held:
            with contextlib.suppress(ConnectionFault):
                self._send(command)

    def _on_event(self, event: Event) -> None:
        session = self.sessions.get(event.session_id)
        if session is None:
            if isinstance(event, InitProgress):
                self.on_progress(event)
            return  # of a session that is not watched
        if isinstance(event, SessionInfo) and event.state is not None:
            session.is_mode_switched |= session.info is not None and event.state.mode != session.state.mode
            session.state = event.state
        else:
            if event.durable and event.seq <= session.state.seq:
                return  # sent again after a connection was lost
            apply(session.state, event)
        session.on_event(event)

    async def close(self) -> None:
        """Close the connection; sessions at the server continue. What still waits for a reply fails with `ServerGone`."""
        self._closing = True
        self._lost = self._lost or ServerGone("The connection to the server was closed.")
        for task in self._tasks:
            task.cancel()
        self._fail_waiting(self._lost)
        if self._transport is not None:
            await self._transport.close()


@asynccontextmanager
async def connect(
    address: str | Path | Address | None = None,
    *,
    token: str | None = None,
    name: str = "",
    ca_file: str | Path | None = None,
    transport: Transport | None = None,
    start: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncIterator[Client]:
    """A client of this user's server, or of the one at a path or at `ws://HOST:PORT` with a token; at `wss://HOST:PORT`
    its certificate is checked against the system's authorities and those of `ca_file`. A `transport` that is open already is
    used instead, as long as it lasts. `start` is called where no server answers, and returns whether it has started one.

    Raises `ServerGone` when no server is there, `NotAllowed` when it does not let this client in.
    """
    if not isinstance(name, str):
        raise ConfigError("The name of a client is a text.")
    if transport is None and not isinstance(address, Address):
        address = address_of(address, token, ca_file)

    async def connect_transport() -> Transport:
        if transport is not None:
            return transport
        try:
            return await WebSocketTransport.open(cast("Address", address))
        except ServerGone:
            if start is None or not await start():
                raise
        return await WebSocketTransport.open(cast("Address", address))

    client = Client(connect_transport, name, address if isinstance(address, Address) else None)
    await client.open()
    reading = asyncio.create_task(keep_connected(client))
    try:
        yield client
    finally:
        await client.close()
        reading.cancel()
        await asyncio.wait([reading])


async def keep_connected(client: Client) -> None:
    """Keep the connection open; its failure is raised by pending calls."""
    try:
        await client.keep()
    except JaatoError:
        return


def absolute(workspace: str | Path) -> str:
    """The absolute path of a workspace, as commands send it."""
    return os.path.abspath(workspace)


def word() -> str:
    """A word for `once` that no other command has."""
    return secrets.token_urlsafe(12)
