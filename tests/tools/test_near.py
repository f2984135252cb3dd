"""Words near in meaning: a table looked up where it lies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaato.tools.search.tokenizer import find_related_stems, line_of, stem, table


@given(
    st.dictionaries(st.text("abyz~", min_size=1, max_size=4), st.text("xyz ", max_size=4)), st.text("abyz~")
)
def test_a_line_is_found_where_it_is(lines: dict[str, str], other: str) -> None:
    """The rest of the line of each key, and nothing for another."""
    text = b"\n" + b"".join(sorted(f"{key} {rest}\n".encode() for key, rest in lines.items()))
    for key, rest in lines.items():
        assert line_of(text, key.encode()) == rest.encode()
    if other not in lines:
        assert line_of(text, other.encode()) is None


def test_words_that_mean_alike_are_near() -> None:
    """Each line of the table can be found; words of one meaning are near, others not."""
    lines = table().decode().split("\n")[1:-1]
    assert lines == sorted(lines)
    assert all(find_related_stems(line.partition(" ")[0]) for line in lines[::50])
    for one, other in (
        ("automobile", "car"),
        ("trash", "garbage"),
        ("physician", "doctor"),
        ("delete", "erase"),
    ):
        assert stem(other) in dict(find_related_stems(stem(one)))
    assert stem("banana") not in dict(find_related_stems(stem("invoice")))
    assert find_related_stems("nosuchword") == find_related_stems("日本") == ()
