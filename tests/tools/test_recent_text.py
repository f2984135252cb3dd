"""`RecentText`: the newest characters of a text that grows, and where they stand in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaato.tools.task_records import RecentText


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from([None, True, False]))), st.integers(1, 12))
def test_the_newest_characters_are_kept(pieces: list[str | bool | None], most_chars: int) -> None:
    """After any pieces, takings (None) and readings (a boolean) in between, what is kept is the end of the whole, and its start
    is counted."""
    kept, whole, taken = RecentText(most_chars), "", 0
    for piece in pieces:
        if piece is None:
            text, start = kept.take()
            assert (text, start) == (whole[max(taken, len(whole) - most_chars) :], len(whole) - len(text))
            taken = len(whole)
            continue
        if isinstance(piece, str):
            kept.add(piece)
            whole += piece
            continue
        expected = whole[max(taken, len(whole) - most_chars) :]
        assert (kept.join(), kept.start) == (expected, len(whole) - len(expected))
