"""A client without a loop and without threads: for commands, scripts and tests."""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

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
from jaato.client.state import BACKLOG, PAGE, apply, page_ends, snapshot
from jaato.errors import ConnectionFault, JaatoError, ServerGone
from jaato.protocol.codec import encode
from jaato.protocol.commands import Command, HistoryRequest
from jaato.protocol.events import Event, InitProgress, SessionInfo
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES, PROTOCOL, Hello, History, Reply, Result, Welcome, answer

REPLY_S = 60.0


class Transport(Protocol):
    """Carries protocol frames between one client and one server."""

    in_process: bool
    """Whether the server ends with this program."""

    def send(self, message: bytes, /) -> None:
        """Send one whole frame; never waits. Raises `ServerGone`."""
        ...

    async def receive(self) -> bytes:
        """The next whole frame. Raises `ServerGone` at the end of the connection."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...

    def drop(self) -> None:
        """Let go of a connection that is lost."""
        ...


class BlockingTransport(Protocol):
    """Carries protocol frames between a client without a loop and one server."""

    in_process: bool
    """Whether the server ends with this program."""

    def open(self) -> None:
        """Connect. Raises `ServerGone`, `NotAllowed`."""
        ...

    def send(self, frame: bytes, /) -> None:
        """Send one whole frame. Raises `ServerGone`."""
        ...

    def wait(
        self, timeout_s: float | None, descriptors: Collection[int] = ()
    ) -> tuple[list[bytes], Collection[int]]:
        """The received frames and the readable ones of `descriptors`; with neither, waits up to the timeout. Raises
        `ServerGone` at the end of the connection."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Client:
    """One connection to a server. `with Client() as client: …`; raises `ServerGone` when there is no server.

    `ask` gives a command's result; `events` gives what happens in the sessions that were attached to, whose states are
    in `states` by session id. When more than `BACKLOG` events are unread, a `session.info` of each session, with
    its state, takes their place; `events` gives the entries of the conversation up to it before, from the log.
    """

    def __init__(
        self,
        address: str | Path | Address | None = None,
        *,
        token: str | None = None,
        name: str = "",
        ca_file: str | Path | None = None,
        transport: BlockingTransport | None = None,
    ) -> None:
        if transport is None:
            if not isinstance(address, Address):
                address = address_of(address, token, ca_file)
            transport = socket_transport(address)
        self.transport = transport
        self.address = address if isinstance(address, Address) else None
        self._name = name
        self._waiting: deque[Event] = deque()
        self._ids = 0
        self._progressed = False
        self._asked: dict[str, Command] = {}
        self._replies: dict[str, Reply] = {}
        self.states: dict[str, State] = {}
        self._infos: dict[str, SessionInfo] = {}
        self._given: dict[str, int] = {}
        """By session, the last durable event that `events` has given, itself or in a state."""
        self.welcome: Welcome
        self.on_progress: Callable[[InitProgress], None] = lambda _event: None
        """Called with the progress of what a new session waits for."""
        self.on_lost: Callable[[ServerGone], object] | None = None
        """Called by `begin` and `receive` when the connection is lost, to `reconnect`; without it they raise."""

    def __enter__(self) -> Client:
        return self if hasattr(self, "welcome") else self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Client:
        """Connect and greet, where no `with` does. Raises `ServerGone`, `NotAllowed`."""
        self._open(self.transport)
        return self

    def _open(self, transport: BlockingTransport) -> None:
        transport.open()
        self.transport = transport
        try:
            self._greet()
        except BaseException:
            transport.close()
            raise

    def close(self) -> None:
        """Close the connection; sessions at the server continue."""
        self.transport.close()

    def reconnect(self, wait: Callable[[float], object], rejoin: Callable[[], object]) -> None:
        """Connect again after the connection was lost, with backoff, and send again the commands without a result.

        `wait` waits so many seconds before an attempt; `rejoin` asks what a new connection needs first. Raises `ServerGone`
        after `GIVE_UP_AFTER_S`, `NotAllowed`, and what `rejoin` raises.
        """
        assert self.address is not None
        until, pause_s = time.monotonic() + GIVE_UP_AFTER_S, FIRST_PAUSE_S
        waiting = list(self._asked)
        while True:
            self.transport.close()
            wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 jitter
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                self._open(socket_transport(self.address))
                rejoin()
                for command in [self._asked[name] for name in waiting if name not in self._replies]:
                    self.transport.send(encode(command))
                return
            except ConnectionFault:
                if time.monotonic() > until:
                    raise

    def _greet(self) -> None:
        until = time.monotonic() + CONNECT_S
        self.transport.send(encode(Hello(PROTOCOL, client="jaato", name=self._name)))
        while not (frames := self._receive(until)):
            pass
        welcome = understood(frames[0])
        if not isinstance(welcome, Welcome):
            raise ServerGone("The server does not greet.")
        self.welcome = welcome
        self._take(frames[1:])

    # --- commands ------------------------------------------------------------------------------------------------

    def ask(self, command: Command, timeout_s: float = REPLY_S) -> Result:
        """Send a command and return its result. The timeout begins anew with each progress event of the server. Raises the
        `JaatoError` the server replies with, `ServerGone` without a reply."""
        asked = self.begin(command)
        until = time.monotonic() + timeout_s
        try:
            while (result := self.result(asked)) is None:
                self._progressed = False
                self._take(self._receive(until))
                if self._progressed:
                    until = time.monotonic() + timeout_s
        finally:
            self._asked.pop(asked, None)
        return result

    def begin(self, command: Command) -> str:
        """Send a command without waiting; gives its id, for `result`."""
        self._ids += 1
        asked = msgspec.structs.replace(command, id=str(self._ids))
        self._asked[asked.id] = asked
        try:
            self.transport.send(encode(asked))
        except ServerGone as error:
            if self.on_lost is None:
                raise
            self.on_lost(error)
        return asked.id

    def result(self, asked: str) -> Result | None:
        """The result of a command that was sent, once; None while it is pending. Raises what the server answers with."""
        reply = self._replies.pop(asked, None)
        if reply is None:
            return None
        found = answer(self._asked.pop(asked), reply)
        if isinstance(found, JaatoError):
            raise found
        return found

    @staticmethod
    def word() -> str:
        """A new word for a command's `once`."""
        return os.urandom(12).hex()

    # --- events --------------------------------------------------------------------------------------------------

    def events(self, timeout_s: float | None = None) -> Iterator[Event]:
        """What happens, one after the other, each taken into its state before it is given. Ends after so many seconds
        of silence; raises `ServerGone` when the server has gone."""
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                session_id, has_state = (
                    event.session_id,
                    isinstance(event, SessionInfo) and event.state is not None,
                )
                if has_state and session_id in self._given:
                    yield from self.entries(session_id, self._given[session_id], event.seq)
                if has_state or event.durable:
                    self._given[session_id] = event.seq
                yield event
            until = None if timeout_s is None else time.monotonic() + timeout_s
            while not (frames := self.transport.wait(timeout_s)[0]):
                if until is not None and time.monotonic() >= until:
                    return
            self._take(frames)

    def entries(self, session_id: str, after_seq: int, last_seq: int) -> Iterator[Event]:
        """The entries of a session's conversation after an event up to another, oldest first, from the log. Raises
        `SessionNotFound`, and `ServerGone` when the connection has ended."""
        for before_seq in page_ends(after_seq, last_seq):
            asked = self.begin(HistoryRequest(session_id=session_id, before_seq=before_seq, limit=PAGE))
            while (page := self.result(asked)) is None:
                self.receive()
            assert isinstance(page, History)
            for event in page.events:
                if event.seq > after_seq:
                    after_seq = event.seq
                    yield event

    def receive(self, descriptors: Collection[int] = (), timeout_s: float | None = None) -> Collection[int]:
        """Wait for frames, a readable descriptor or the timeout, and process the frames; returns the readable descriptors.
        Raises `ServerGone` when the connection has ended."""
        try:
            frames, readable = self.transport.wait(timeout_s, descriptors)
        except ServerGone as error:
            if self.on_lost is None:
                raise
            self.on_lost(error)
            return ()
        self._take(frames)
        return readable

    def arrived(self) -> list[Event]:
        """The events that were taken in and not given yet."""
        events = list(self._waiting)
        self._waiting.clear()
        return events

    @property
    def waiting(self) -> bool:
        """Whether received events wait to be read."""
        return bool(self._waiting)

    def fileno(self) -> int:
        """The descriptor of the connection to a server elsewhere, to wait on beside others."""
        from jaato.client.websocket import SocketTransport

        assert isinstance(self.transport, SocketTransport)
        return self.transport.fileno()

    # --- reading -------------------------------------------------------------------------------------------------

    def _receive(self, until: float) -> list[bytes]:
        """The frames received so far, perhaps none. Raises `ServerGone` after the deadline."""
        if (left_s := until - time.monotonic()) <= 0:
            raise no_answer(self.address)
        return self.transport.wait(left_s)[0]

    def _take(self, frames: list[bytes]) -> None:
        for one in frames:
            self._handle_message(understood(one))

    def _handle_message(self, value: Any) -> None:
        """Take in one message. Messages of a kind this client does not know are passed over."""
        if isinstance(value, Reply):
            if value.id in self._asked:
                self._replies[value.id] = value
        elif isinstance(value, InitProgress) and not value.session_id:
            self._progressed = True
            self.on_progress(value)
        elif isinstance(value, Event):
            if isinstance(value, SessionInfo) and value.state is not None:
                self.states[value.session_id] = value.state
            elif value.session_id in self.states:
                apply(self.states[value.session_id], value)
            if isinstance(value, SessionInfo) and value.session_id in self.states:
                self._infos[value.session_id] = msgspec.structs.replace(value, state=None)
            self._keep(value)

    def _keep(self, event: Event) -> None:
        """Have an event wait for `events` or `arrived`; when too many do, the states take their place."""
        self._waiting.append(event)
        if len(self._waiting) > BACKLOG:
            infos = self._infos.items()
            self._waiting = deque([snapshot(info, self.states[session_id]) for session_id, info in infos])


def socket_transport(address: Address) -> BlockingTransport:
    """A WebSocket to a server elsewhere, not connected yet."""
    from jaato.client.websocket import SocketTransport  # a server in the same process needs none of it

    return SocketTransport(address)


def understood(message: bytes) -> Any:
    """Decode a frame of the server; None for a type this client does not know. Raises `ConnectionFault` if it is not JSON."""
    try:
        return FRAMES.decode(message)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConnectionFault("The server sent a message that is none.") from None
