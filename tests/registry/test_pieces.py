"""Heads of requests in the pieces they come in."""

from __future__ import annotations

import pytest

from jaato.server.registry.incoming import MAX_HEAD_BYTES, Incoming
from jaato.server.registry.request import Request

POST = b"POST /p HTTP/1.1\r\ncontent-length: 40000\r\n\r\n" + b"b" * 40_000
GETS = b"GET / HTTP/1.1\r\n\r\n" * 900


class Ear:
    """Remembers the last it was told."""

    last = ""

    def begun(self) -> None:
        """A request begins."""

    def asked(self, request: Request) -> None:
        """Its head is there."""

    def said(self, request: Request, body: bytes, closes: bool) -> None:
        """It is whole."""
        self.last = "said"

    def wrong(self, code: str, words: str, request: Request | None) -> None:
        """It is not to be read."""
        self.last = code


def told(*pieces: bytes) -> str:
    """What is told of the last request in these pieces."""
    ear = Ear()
    incoming = Incoming(ear, 1_000_000)
    for piece in pieces:
        incoming.feed(piece)
    return ear.last


def by_header(size_bytes: int) -> bytes:
    """A head of so many bytes, in headers."""
    line = b"x-one: " + b"a" * 991 + b"\r\n"
    return b"GET / HTTP/1.1\r\n" + line * (size_bytes // len(line)) + b"\r\n"


def by_target(size_bytes: int) -> bytes:
    """A head of so many bytes, in its target."""
    return b"GET /" + b"a" * size_bytes + b" HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("before", [b"", POST, GETS])
@pytest.mark.parametrize("head", [by_header, by_target])
def test_a_head_is_as_large_as_it_is_in_whatever_pieces(head: object, before: bytes) -> None:
    """A head beyond the bound is refused, and one within is read, wherever it is cut and whatever came before it."""
    assert callable(head)
    for size, expected in (
        (MAX_HEAD_BYTES - 2_000, "said"),
        (MAX_HEAD_BYTES + 2_000, "request.head_too_large"),
        (2 * MAX_HEAD_BYTES - 2_000, "request.head_too_large"),
    ):
        whole = before + head(size)
        for cut in (1, 1_000, size // 2, MAX_HEAD_BYTES - 1):
            at = len(before) + cut
            for pieces in ((whole[:at], whole[at:]), (before, whole[len(before) : at], whole[at:])):
                assert told(*pieces) == expected, (size, cut)
