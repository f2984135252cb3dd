"""Server-sent events, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.errors import MalformedReply
from jaato.providers.sse import SseParser

STREAM = (
    b"\xef\xbb\xbf: a comment\n\nevent: first\r\ndata: one\r\n\r\ndata:two\rdata: three\r\r"
    b"id: 7\nretry: 10\nunknown: x\ndata\ndata:  spaced\n\nevent:last\ndata: \xc3\xa9\n\n"
    b"event: empty\n\ndata: lost"
)
EXPECTED = [
    ("first", b"one"),
    ("", b"two\nthree"),
    ("", b"\n spaced"),
    ("last", b"\xc3\xa9"),
]


def parse(pieces: list[bytes], limit: int = 1000) -> list[tuple[str, bytes]]:
    """Every event of a stream that comes in these pieces."""
    parser = SseParser(limit)
    return [event for piece in pieces for event in parser.feed(piece)]


def test_whole() -> None:
    """All three line ends, comments, a byte order mark, names and several data lines are understood."""
    assert parse([STREAM]) == EXPECTED


def test_cut_at_every_byte() -> None:
    """A stream cut in two at any byte, or into single bytes, gives the same events."""
    for cut in range(len(STREAM)):
        assert parse([STREAM[:cut], STREAM[cut:]]) == EXPECTED
    assert parse([STREAM[n : n + 1] for n in range(len(STREAM))]) == EXPECTED


WORDS = [b"data: a", b"data:", b"event: e", b": c", b"\n", b"\r\n", b"\r", b"x", b"\n\n"]


@given(st.lists(st.sampled_from(WORDS)), st.lists(st.integers(0, 60), max_size=6))
def test_cuts_change_nothing(words: list[bytes], cuts: list[int]) -> None:
    """Where a stream is cut never changes its events."""
    stream = b"".join(words)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert parse(pieces) == parse([stream])


def test_an_event_comes_at_once() -> None:
    """An event is given out with its last byte, even when that is a carriage return."""
    assert parse([b"data: now\r\r"]) == [("", b"now")]


@pytest.mark.parametrize("piece", [b"x" * 50, b"data: " + b"x" * 30 + b"\n"])
def test_size_is_bounded(piece: bytes) -> None:
    """A line without end and an event without end are both refused beyond the bound."""
    with pytest.raises(MalformedReply, match="larger than 1,000 bytes"):
        parse([piece] * 60)


def test_a_long_line_in_small_pieces_is_joined_once() -> None:
    """A long line that comes in small pieces is kept in pieces until its end, so its cost stays linear."""
    parser = SseParser()
    pieces = [b"data: ", *[b"x" * 50] * 5_000]
    assert [parser.feed(piece) for piece in pieces] == [[]] * len(pieces)
    assert len(parser._held) == len(pieces)
    assert parser.feed(b"\n\n") == [("", b"x" * 250_000)]
