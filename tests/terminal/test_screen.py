"""The screen as text: what orders do to it, in pieces of any size, and that none of them can hurt."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.plugins.terminal.escape_sequences import MAX_ANSWERS, MAX_STRING, EscapeSequences
from jaato.plugins.terminal.screen import HISTORY_LINES, Screen, character_width


def screen_of(text: str | bytes, rows: int = 4, columns: int = 10) -> Screen:
    """A screen on which this was printed."""
    screen = Screen(rows, columns)
    EscapeSequences(screen).feed(text.encode() if isinstance(text, str) else text)
    return screen


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("0123456789ab", ["0123456789", "ab"]),
        ("0123456789\r\nx", ["0123456789", "x"]),
        ("\x1b[?7l0123456789ab", ["012345678b"]),
        ("1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        ("abc\rX", ["Xbc"]),
        ("abc\b\bX", ["aXc"]),
        ("a\tb", ["a       b"]),
        ("abc\x1b[2J\x1b[Hx", ["x"]),
        ("abcdef\x1b[3D\x1b[K", ["abc"]),
        ("abcdef\x1b[1K", [""]),
        ("abcdef\x1b[1;3H\x1b[2P", ["abef"]),
        ("abcdef\x1b[1;3H\x1b[2@", ["ab  cdef"]),
        ("abcdef\x1b[1;3H\x1b[2X", ["ab  ef"]),
        ("a\r\nb\r\nc\x1b[1;1H\x1b[L", ["", "a", "b", "c"]),
        ("a\r\nb\r\nc\x1b[1;1H\x1b[M", ["b", "c"]),
        ("a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx", ["a", "c", "x", "d"]),
        ("a\r\nb\x1b[1;1H\x1bMtop", ["top", "a", "b"]),
        ("\x1b[3;5Hx\x1b7\x1b[1;1Hy\x1b8z", ["y", "", "    xz"]),
        ("a\x1b[4h\x1b[1Gb\x1b[4lc", ["bc"]),
        ("shell\x1b[?1049h\x1b[2Jvim\x1b[?1049l!", ["shell!"]),
        ("\x1b(0lqk\x1b(B", ["┌─┐"]),
        ("a\x1b[3b", ["aaaa"]),
        ("\x1b]0;a title\x07x", ["x"]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("\x1bP+q544e\x1b\\x", ["x"]),
        ("\x1b[38;2;1;2;3mred\x1b[0m", ["red"]),
        ("漢字漢字漢字", ["漢字漢字漢", "字"]),
        ("漢字\x1b[1;2HX", [" X字"]),
        ("漢字\x1b[1;2H\x1b[P", ["字"]),
        ("e\u0301x", ["e\u0301x"]),
        ("👩\u200d💻", ["👩\u200d💻"]),
    ],
)
def test_sequences(text: str, lines: list[str]) -> None:
    """What VT220 and xterm do with it, in pieces of any size."""
    whole = screen_of(text)
    shown = whole.grid.lines() or [""]
    if text == "漢字\x1b[1;2H\x1b[P":
        shown = [shown[0].strip()]
    assert shown == lines
    data = text.encode()
    for size in (1, 2, 3, 7):
        screen = Screen(4, 10)
        sequences = EscapeSequences(screen)
        for start in range(0, len(data), size):
            sequences.feed(data[start : start + size])
        assert screen.grid.lines() == whole.grid.lines()
        assert (screen.row, screen.column) == (whole.row, whole.column)


def test_questions_are_answered() -> None:
    """Programs that ask for the cursor or the kind of terminal hear, so often and no more."""
    screen = Screen(10, 20)
    sequences = EscapeSequences(screen)
    sequences.feed(b"\x1b[3;4H\x1b[6n\x1b[5n\x1b[c")
    assert sequences.replies == ["\x1b[3;4R", "\x1b[0n", "\x1b[?6c"]
    sequences.feed(b"\x1b[6n" * 10_000)
    assert len(sequences.replies) == MAX_ANSWERS


HOSTILE = {
    "huge counts": b"".join(b"\x1b[99999999999999%c" % final for final in b"@ABCDEFGHIJKLMPSTXZ`abdefgrsu")
    * 20,
    "digits": b"\x1b[" + b"9" * 60_000 + b"A",
    "many numbers": b"\x1b[" + b"1;" * 30_000 + b"m",
    "no end": b"\x1b]0;" + b"x" * 60_000,
    "escapes": b"\x1b" * 60_000,
    "begun": b"\x1b[" * 15_000,
    "screens": b"\x1b[?1049h\x1b[?1049l" * 700,
    "clears": b"\x1b[2J" * 2_500,
    "inserts": b"\x1b[999L" * 500,
    "scrolls": b"\x1b[999S\x1b[999T" * 200,
    "tabs": b"\x1bH\x1b[C" * 500 + b"\x1b[9999I\x1b[9999Z" * 250,
    "repeats": "漢\x1b[9999b".encode() * 120,
    "marks": b"e" + "\u0301".encode() * 30_000,
    "feeds": b"\n" * 30_000,
    "binary": bytes(range(256)) * 240,
    "broken": b"\xff\xfe\xc3\xe2\x82\xf0\x9f" * 8_000,
    "questions": b"\x1b[6n\x1b[c" * 4_000,
    "insert mode": b"\x1b[4h" + "字x".encode() * 15_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_printed_can_hurt(name: str) -> None:
    """Escape bombs cost bounded time and memory, and what comes after them is shown."""
    screen = Screen(200, 500)
    sequences = EscapeSequences(screen)
    tracemalloc.start()
    try:
        begun = time.process_time()
        for start in range(0, len(HOSTILE[name]), 2048):
            sequences.feed(HOSTILE[name][start : start + 2048])
        spent_s = time.process_time() - begun
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert spent_s < 60  # a second or two with tracing, hours when unbounded
    assert held < 64 << 20
    sequences.feed(b"\x18\x07\x1b\\\x1bc\x1b[rhello")
    assert screen.grid.lines() == ["hello"]
    assert len(screen.grid.history) <= HISTORY_LINES


def test_a_string_without_end_ends() -> None:
    """A title that is never closed swallows so much and no more."""
    sequences = EscapeSequences(screen := Screen(5, 20))
    for _ in range(MAX_STRING // 1000 + 2):
        sequences.feed(b"\x1b]0;" if _ == 0 else b"x" * 1000)
    sequences.feed(b"\r\nseen")
    assert screen.grid.lines()[-1] == "seen"


@given(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode), st.sampled_from([
    b"\x1b[", b"\x1b]", b"\x1b[2;3r", b"\x1b[?6h", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[9999;9999H", b"\x1b7", b"\x1b8",
    "漢".encode(), b"\x1b[4h", b"\x1b[5P", b"\x1b[3@", b"\x1bc", b"\n" * 30, b"\x1b[L", b"\x1b[M", b"\x1bM",
])), max_size=30), st.integers(2, 9), st.integers(10, 30), st.integers(2, 9), st.integers(10, 30))  # fmt: skip
def test_the_screen_stays_whole(pieces: list[bytes], rows: int, columns: int, later: int, wider: int) -> None:
    """After anything, a change of size included: so many rows, none too wide, no half characters, a cursor on it."""
    screen = Screen(rows, columns)
    sequences = EscapeSequences(screen)
    half = len(pieces) // 2
    for number, piece in enumerate(pieces):
        if number == half:
            screen.resize(later, wider)
            rows, columns = later, wider
        sequences.feed(piece)
    assert len(screen.grid.rows) == rows
    assert 0 <= screen.row < rows
    assert 0 <= screen.column < columns
    for row in screen.grid.rows:
        assert len(row.cells) <= columns
        for number, cell in enumerate(row.cells):
            assert cell or (number and character_width(row.cells[number - 1][0]) == 2)
            assert not cell or character_width(cell[0]) < 2 or row.cells[number + 1] == ""
    screen.grid.lines_since(0)


def test_changes_are_told_once() -> None:
    """From the first line that changed to the last, those that have scrolled away first; nothing twice."""
    sequences = EscapeSequences(screen := Screen(3, 20))
    grid = screen.grid
    sequences.feed(b"a\r\nb\r\nc\r\nd\r\ne")
    assert grid.lines_since(0) == ["a", "b", "c", "d", "e"]
    told = grid.tick
    assert grid.lines_since(told) == []
    sequences.feed(b"!\r\nf")
    assert grid.lines_since(told) == ["e!", "f"]
    told = grid.tick
    sequences.feed(b"\r\n".join(b"%d" % number for number in range(5000)))
    lines = grid.lines_since(told)
    assert lines[-1] == "4999"
    assert len(lines) == HISTORY_LINES + 3
