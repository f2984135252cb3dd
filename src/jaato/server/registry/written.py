"""Answers as the bytes of HTTP/1.1."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from time import time

from jaato.server.registry.answers import Answer

ENTRY = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


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


def written(answer: Answer, method: bytes, *, closes: bool) -> bytes:
    """An answer to a request with this method; `closes`: it is the last on its connection."""
    parts = [ENTRY[answer.status], CLOCK.line()]
    for name, value in answer.headers:
        parts += (name, b": ", value, b"\r\n")
    if answer.status != 304:
        parts.append(b"content-length: %d\r\n" % len(answer.body))
    parts.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
    if method != b"HEAD":
        parts.append(answer.body)
    return b"".join(parts)
