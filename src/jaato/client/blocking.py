"""A client without a loop and without threads: for commands, scripts and tests."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jaato.client.address import PATH, Address, address_of, dial
from jaato.client.state import apply
from jaato.client.websocket import CLOSE, TEXT, Closed, Frames, Handshake, frame
from jaato.errors import ConnectionFault, JaatoError, from_code
from jaato.protocol.codec import encode
from jaato.protocol.commands import Command
from jaato.protocol.events import Event, SessionInfo
from jaato.protocol.events.state import State
from jaato.protocol.frames import FRAMES, NOT_LET_IN, PROTOCOL, Hello, Reply, Result, Welcome

REPLY_S = 60.0
READ_BYTES = 1 << 18


class Client:
    """One connection to a server. `with Client() as client: …`; raises `ConnectionFault` when there is no server.

    `ask` gives a command's result; `events` gives what happens in the sessions that were attached to, whose states are
    in `states` by session id.
    """

    def __init__(
        self,
        address: str | Path | Address | None = None,
        *,
        token: str | None = None,
        name: str = "",
        ca_file: str | Path | None = None,
    ) -> None:
        if not isinstance(address, Address):
            address = address_of(address, token, ca_file)
        self._address = address
        self._name = name
        self._frames = Frames()
        self._waiting: deque[Event] = deque()
        self._ids = 0
        self.states: dict[str, State] = {}
        self.welcome: Welcome

    def __enter__(self) -> Client:
        self._socket = dial(self._address)
        try:
            self._greet()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._socket.sendall(frame(CLOSE, (1000).to_bytes(2, "big")))
        except OSError:
            pass
        self._socket.close()

    def _greet(self) -> None:
        opening = Handshake(self._address.name, PATH, self._address.headers)
        self._socket.settimeout(REPLY_S)
        self._socket.sendall(opening.request)
        while (rest := opening.take(self._received())) is None:
            pass
        self._write(Hello(PROTOCOL, client="jaato", name=self._name))
        told = self._frames.take(rest)
        while not told:
            told = self._frames.take(self._received())
        if isinstance(told[0], Closed):
            raise refused(told[0])
        welcome = FRAMES.decode(told[0])
        if not isinstance(welcome, Welcome):
            raise ConnectionFault("The server does not greet.")
        self.welcome = welcome
        self._heed(told[1:])

    # --- commands ------------------------------------------------------------------------------------------------

    def ask(self, command: Command, timeout_s: float = REPLY_S) -> Result:
        """The result of a command. Raises the `JaatoError` the server answers with, `ConnectionFault` without an answer."""
        self._ids += 1
        asked = msgspec.structs.replace(command, id=str(self._ids))
        self._write(asked)
        self._socket.settimeout(timeout_s)
        while not (replies := [one for one in self._take(self._received()) if one.id == asked.id]):
            pass
        error, result = replies[0].error, replies[0].result
        if error is not None:
            raise from_code(error.code, error.message)
        assert result is not None
        return result

    @staticmethod
    def word() -> str:
        """A new word for a command's `once`."""
        return secrets.token_urlsafe(12)

    # --- events --------------------------------------------------------------------------------------------------

    def events(self, timeout_s: float | None = None) -> Iterator[Event]:
        """What happens, one after the other, each taken into its state before it is given. Ends after so many seconds
        of silence; raises `ConnectionFault` when the server has gone."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            self._socket.settimeout(timeout_s)
            try:
                data = self._socket.recv(READ_BYTES)
            except TimeoutError:
                return
            except OSError as error:
                raise ConnectionFault(f"The connection to the server was lost: {error.strerror}.") from None
            self._take(self._whole(data))

    def fileno(self) -> int:
        """The descriptor, to wait on beside others."""
        return self._socket.fileno()

    # --- reading and writing -------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> list[Reply]:
        """Take in what has come, and answer pings; the replies in it are given back."""
        told = self._frames.take(data)
        try:
            for due in self._frames.due:
                self._socket.sendall(due)
        except OSError:
            pass  # what came before the end is taken in first
        self._frames.due.clear()
        return self._heed(told)

    def _heed(self, told: list[bytes | Closed]) -> list[Reply]:
        return [reply for one in told if (reply := self._one(one)) is not None]

    def _one(self, told: bytes | Closed) -> Reply | None:
        """Take in one message; a reply is given back. Messages of a kind this client does not know are passed over."""
        if isinstance(told, Closed):
            raise refused(told)
        try:
            value: Any = FRAMES.decode(told)
        except msgspec.ValidationError:
            return None
        if isinstance(value, Reply):
            return value
        if isinstance(value, Event):
            if isinstance(value, SessionInfo) and value.state is not None:
                self.states[value.session_id] = value.state
            elif value.session_id in self.states:
                apply(self.states[value.session_id], value)
            self._waiting.append(value)
        return None

    def _write(self, struct: Any) -> None:
        try:
            self._socket.sendall(frame(TEXT, encode(struct)))
        except OSError as error:
            raise ConnectionFault(f"The connection to the server was lost: {error.strerror}.") from None

    def _received(self) -> bytes:
        try:
            return self._whole(self._socket.recv(READ_BYTES))
        except TimeoutError:
            raise ConnectionFault("The server does not answer.") from None
        except OSError as error:
            raise ConnectionFault(f"The connection to the server was lost: {error.strerror}.") from None

    @staticmethod
    def _whole(data: bytes) -> bytes:
        if not data:
            raise ConnectionFault("The server has ended the connection.")
        return data


def refused(closed: Closed) -> JaatoError:
    """Why a server ended a connection."""
    if closed.code == NOT_LET_IN:
        return from_code("not_allowed", f"The server does not let this client in: {closed.reason}.")
    return ConnectionFault(f"The server has ended the connection: {closed.reason or closed.code}.")
