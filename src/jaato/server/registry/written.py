"""Answers as the bytes of HTTP/1.1."""

from __future__ import annotations

import asyncio
import socket
import struct
from email.utils import formatdate
from http import HTTPStatus
from time import time

from jaato.server.registry.answers import Answer
from jaato.server.registry.request import Request

ENTRY = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSES = b"connection: close\r\n\r\n"
KEPT = b"connection: keep-alive\r\n\r\n"
"""What HTTP/1.0 wants to be told (RFC 9112, C.2.2)."""
AT_ONCE = struct.pack("ii", 1, 0)


class Clock:
    """The date as a header, made once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        """The header's line."""
        now = int(time())
        if now != self._second:
            self._second = now
            self._line = f"date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._line


CLOCK = Clock()


def head_of(answer: Answer, request: Request, *, closes: bool, framing: bytes) -> list[bytes]:
    """The head of an answer, in pieces; `framing` says how long the body is, `closes` that it is the last on its connection."""
    parts = [ENTRY[answer.status], CLOCK.line()]
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    for name, value in request.told:
        parts += (name, b": ", value, b"\r\n")
    parts.append(framing)
    parts.append(CLOSES if closes else KEPT if request.old else b"\r\n")
    return parts


def written(answer: Answer, request: Request, *, closes: bool) -> bytes:
    """An answer, whole."""
    length = b"" if answer.status in (204, 304) else b"content-length: %d\r\n" % len(answer.body)
    parts = head_of(answer, request, closes=closes, framing=length)
    if request.method != b"HEAD":
        parts.append(answer.body)
    return b"".join(parts)


def begun(answer: Answer, request: Request, *, closes: bool) -> bytes:
    """The head of an answer whose body comes in pieces: HTTP/1.0 knows none, and has it until the connection ends."""
    framing = b"" if request.old else b"transfer-encoding: chunked\r\n"
    return b"".join(head_of(answer, request, closes=closes, framing=framing))


def chunk(piece: bytes, request: Request) -> bytes:
    """A piece of such a body; an empty one ends it."""
    return piece if request.old else b"%x\r\n%b\r\n" % (len(piece), piece)


def cut(transport: asyncio.Transport) -> None:
    """Close a connection, and have the system keep nothing for it either."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    transport.abort()
