"""`RecentText`: the newest characters of a text that grows, and where they stand in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaato.tools.task_records import RecentText


@given(st.lists(st.one_of(st.text(max_size=9), st.none())), st.integers(1, 12))
def test_the_newest_characters_are_kept(pieces: list[str | None], most_chars: int) -> None:
    """After any pieces, and takings in between (None), what is kept is the end of the whole, and its start is counted."""
    kept, whole, taken = RecentText(most_chars), "", 0
    for piece in pieces:
        if piece is None:
            text, start = kept.take()
            assert (text, start) == (whole[max(taken, len(whole) - most_chars) :], len(whole) - len(text))
            taken = len(whole)
            continue
        kept.add(piece)
        whole += piece
        expected = whole[max(taken, len(whole) - most_chars) :]
        assert (kept.join(), kept.start) == (expected, len(whole) - len(expected))
