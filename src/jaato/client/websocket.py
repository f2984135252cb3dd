"""The client's half of a WebSocket (RFC 6455): text frames, no extensions; and such a connection over a socket that blocks.

A library for it takes longer to import than all the rest of a short run; a client of a server at hand needs little of one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import select
import time
from collections.abc import Collection
from dataclasses import dataclass

from jaato.client.address import CONNECT_S, PATH, Address, Disconnected, connect_socket, no_answer
from jaato.errors import ConnectionFault, JaatoError, NotAllowed, ServerGone, from_code
from jaato.protocol.frames import NOT_LET_IN, OTHER_PROTOCOL, PROTOCOL

REPLY_S = 60.0
READ_BYTES = 1 << 18
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_HEAD_BYTES = 16_384
MAX_MESSAGE_BYTES = 64 << 20
"""The longest message that is accepted: a snapshot with its newest entries."""
MOST_PARTS = 10_000
"""How many fragments a message may have; empty ones count too."""
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Closed:
    """The server has ended the connection, with this code (1006: without a word) and reason."""

    code: int
    reason: str


class Handshake:
    """The opening handshake: send `request`, then pass received bytes to `take` until it returns what follows the head."""

    def __init__(
        self, host: str, path: str, headers: dict[str, str] | None = None, token_from: str = ""
    ) -> None:
        self._unknown = (
            f"The token{token_from and ' of '}{token_from} is wrong, expired or another server's"
            if headers
            else "The server asks for a token, and none was given"
        )
        self._key = base64.b64encode(os.urandom(16))
        self._held = b""
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {self._key.decode()}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.request = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def take(self, data: bytes) -> bytes | None:
        """Process received bytes; None while more are needed. Raises `NotAllowed` when the server refuses this client,
        `Disconnected` at the end of the connection, `ConnectionFault` for any other refusal and for a response that is not
        HTTP."""
        if not data and not self._held:
            raise Disconnected("The server has ended the connection.")
        self._held += data
        head, end, rest = self._held.partition(b"\r\n\r\n")
        if not end:
            if not data or len(self._held) > MAX_HEAD_BYTES:
                raise ConnectionFault("What answers there is no jaato server.")
            return None
        lines = head.split(b"\r\n")
        parts = lines[0].split(b" ", 2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.1"):
            raise ConnectionFault("What answers there is no jaato server.")
        if parts[1] == b"401":
            raise NotAllowed(
                f"The server does not let this client in. {self._unknown}; where it runs, `jaato tokens add NAME` makes one."
            )
        if parts[1] in (b"403", b"421"):
            raise NotAllowed(refusal(parts[1], rest))
        if parts[1] != b"101":
            raise ConnectionFault(refusal(parts[1], rest))
        named = dict(line.lower().partition(b":")[::2] for line in lines[1:])
        wanted = base64.b64encode(hashlib.sha1(self._key + GUID, usedforsecurity=False).digest())
        given = [
            line.partition(b":")[2].strip()
            for line in lines
            if line.lower().startswith(b"sec-websocket-accept")
        ]
        if given != [wanted] or named.get(b"upgrade", b"").strip() != b"websocket":
            raise ConnectionFault("What answers there is no jaato server.")
        return rest


def refusal(status: bytes, body: bytes) -> str:
    """The reason in a refused handshake."""
    import json

    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        message = f"HTTP status {status.decode('latin-1')[:20]}"
    return f"The server does not let this client in: {str(message)[:500]}"


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole frame, masked as a client's must be."""
    size, mask = len(payload), os.urandom(4)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8, "big")
    if not size:
        return head + mask
    repeated = mask * (size // 4) + mask[: size % 4]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + masked.to_bytes(size, "big")


class Frames:
    """What a server sends: `take` bytes, get messages; `due` is what must be sent back for it."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self.due: list[bytes] = []

    def take(self, data: bytes) -> list[bytes | Closed]:
        """The complete messages, UTF-8, perhaps with the close. Raises `ConnectionFault` for invalid WebSocket frames."""
        self._held += data
        found: list[bytes | Closed] = []
        while (parsed := self._frame()) is not None:
            final, opcode, payload = parsed
            match opcode:
                case 1 | 2 | 0:
                    self._part(opcode, payload)
                    if final:
                        found.append(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
                        self._parts, self._size = [], 0
                case 9:
                    self.due.append(frame(PONG, payload))
                case 8:
                    code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                    self.due.append(frame(CLOSE, payload[:2]))
                    found.append(Closed(code, payload[2:].decode("utf-8", "replace")))
                case 10:
                    pass
                case _:
                    raise ConnectionFault("The server sent a frame that is none.")
        return found

    def _part(self, opcode: int, payload: bytes) -> None:
        if (opcode == CONTINUATION) != bool(self._parts):
            raise ConnectionFault("The server sent parts of messages in disorder.")
        self._parts.append(payload)
        self._size += len(payload)
        if self._size > MAX_MESSAGE_BYTES or len(self._parts) > MOST_PARTS:
            raise ConnectionFault("The server sent a message that is too long.")

    def _frame(self) -> tuple[bool, int, bytes] | None:
        held = self._held
        if len(held) < 2:
            return None
        if held[0] & 0x70 or held[1] & 0x80:
            raise ConnectionFault("The server sent a frame that is none.")
        size, start = held[1], 2
        if size > 125:
            width = 2 if size == 126 else 8
            start += width
            if len(held) < start:
                return None
            size = int.from_bytes(held[2:start], "big")
        if size > MAX_MESSAGE_BYTES:
            raise ConnectionFault("The server sent a message that is too long.")
        if len(held) < start + size:
            return None
        first = held[0]
        payload = bytes(held[start : start + size])
        del held[: start + size]
        return bool(first & 0x80), first & 0x0F, payload


class SocketTransport:
    """A WebSocket over a socket that blocks."""

    in_process = False

    def __init__(self, address: Address) -> None:
        self.address = address
        self._frames = Frames()
        self._greeting: list[bytes] = []
        self._closed: Closed | None = None

    def open(self) -> None:
        """Connect, and change to the WebSocket protocol. Raises `ServerGone`, `NotAllowed`."""
        self._socket = connect_socket(self.address)
        try:
            opening = Handshake(self.address.name, PATH, self.address.headers, self.address.token_from)
            self._socket.settimeout(CONNECT_S)
            self._socket.sendall(opening.request)
            until = time.monotonic() + CONNECT_S
            while (rest := opening.take(self._receive(until))) is None:
                pass
            self._greeting = self._process(rest)
        except TimeoutError:
            self._socket.close()
            raise no_answer(self.address) from None
        except BaseException:
            self._socket.close()
            raise

    def send(self, message: bytes, /) -> None:
        """Send one whole frame. Raises `ServerGone`."""
        try:
            self._socket.settimeout(REPLY_S)
            self._socket.sendall(frame(TEXT, message))
        except TimeoutError:
            raise ServerGone("The server does not read what is sent to it.") from None
        except OSError as error:
            raise Disconnected(f"The connection to the server was lost: {error.strerror}.") from None

    def wait(
        self, timeout_s: float | None, descriptors: Collection[int] = ()
    ) -> tuple[list[bytes], Collection[int]]:
        """See `BlockingTransport`. Raises what the server has refused the client with, too."""
        messages, self._greeting = self._greeting, []
        readable: set[int] = set()
        if not messages and self._closed is None:
            until = None if timeout_s is None else time.monotonic() + timeout_s
            if descriptors:
                readable = self._select(timeout_s, descriptors)
            try:
                if not descriptors or self.fileno() in readable:
                    messages = self._process(self._receive(until))
                    while self._has_buffered():
                        messages += self._process(self._receive(until))
            except TimeoutError:
                pass
        if self._closed is not None and not messages:
            raise refusal_error(self._closed)
        return messages, readable

    def _select(self, timeout_s: float | None, descriptors: Collection[int]) -> set[int]:
        """Which of the descriptors and of our own can be read."""
        if self._has_buffered():
            return {self.fileno()}
        poll = select.poll()
        for descriptor in (self.fileno(), *descriptors):
            poll.register(descriptor, select.POLLIN)
        return {number for number, _ in poll.poll(None if timeout_s is None else timeout_s * 1_000)}

    def _process(self, data: bytes) -> list[bytes]:
        """Process received bytes and return the complete messages; replies to pings."""
        messages = self._frames.take(data)
        try:
            for due in self._frames.due:
                self._socket.sendall(due)
        except OSError:
            pass  # what came before the end is taken in first
        self._frames.due.clear()
        self._closed = next((one for one in messages if isinstance(one, Closed)), self._closed)
        return [one for one in messages if not isinstance(one, Closed)]

    def _receive(self, until: float | None) -> bytes:
        """Some bytes. Raises `TimeoutError`, for a server may say a byte now and then, and never anything."""
        left_s = None if until is None else until - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        try:
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise
        except OSError as error:
            raise Disconnected(f"The connection to the server was lost: {error.strerror}.") from None
        if not data:
            raise Disconnected("The server has ended the connection.")
        return data

    def _has_buffered(self) -> bool:
        """Whether TLS has bytes that `fileno` does not tell of."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection."""
        try:
            self._socket.sendall(frame(CLOSE, (1000).to_bytes(2, "big")))
        except OSError:
            pass
        self._socket.close()


def refusal_error(closed: Closed) -> JaatoError:
    """Why a server ended a connection."""
    if closed.code == NOT_LET_IN:
        return from_code("not_allowed", f"The server does not let this client in: {closed.reason}.")
    if closed.code == OTHER_PROTOCOL:
        return ServerGone(
            f"{closed.reason.capitalize() or 'The server speaks another protocol'}, this client {PROTOCOL}: "
            "bring both to the same version of jaato (`jaato serve --stop` ends an old server)."
        )
    return ServerGone(f"The server has ended the connection: {closed.reason or closed.code}.")
