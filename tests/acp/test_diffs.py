"""Unified diffs as pairs of texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaato.acp.diffs import Hunk, parse_diff
from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.previews import file_diff

LINES = st.lists(st.text(alphabet="ab -+@\\", max_size=4), max_size=8)


@given(old=LINES, new=LINES)
def test_applying_the_hunks_gives_the_new_text(old: list[str], new: list[str]) -> None:
    """Each hunk's old text stands in the file before, and replaced by the new one gives the file after."""
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    hunks = list(parse_diff(make_unified_diff(before, after), "x"))
    for hunk in reversed(hunks):
        lines = before.splitlines(keepends=True)
        count = (hunk.old or "").count("\n")
        start = hunk.line - 1
        if count:
            start = next(
                at
                for at in sorted(range(len(lines)), key=lambda at: abs(at - (hunk.line - 1)))
                if "".join(lines[at : at + count]) == hunk.old
            )
        before = "".join([*lines[:start], hunk.new, *lines[start + count :]])
    if len(hunks) <= 1:
        assert before == after
    assert all(hunk.path == "x" for hunk in hunks)


def test_heads_name_the_files() -> None:
    """Several files, a new one, and a line of a hunk that looks like a head."""
    diff = "\n".join(
        [
            file_diff("a.py", "x\n-- y\n", "x\n"),
            file_diff("new.py", None, "one\n"),
            file_diff("b", "1\n", "2\n"),
        ]
    )
    found = list(parse_diff(diff))
    assert found == [
        Hunk("a.py", "x\n-- y\n", "x\n", 1),
        Hunk("new.py", None, "one\n", 1),
        Hunk("b", "1\n", "2\n", 1),
    ]


def test_texts_without_a_last_newline_and_new_files() -> None:
    """The note of a diff that a newline is missing is no text of the file; where nothing was before, the file is new."""
    assert list(parse_diff(make_unified_diff("a\nb", "a\nc"), "x")) == [Hunk("x", "a\nb", "a\nc", 1)]
    assert list(parse_diff(make_unified_diff("a", "a\n"), "x")) == [Hunk("x", "a", "a\n", 1)]
    assert list(parse_diff(make_unified_diff("", "one\n"), "x")) == [Hunk("x", None, "one\n", 1)]
    assert list(parse_diff(make_unified_diff("one\n", ""), "x")) == [Hunk("x", "one\n", "", 0)]


def test_gits_prefixes_and_what_was_cut() -> None:
    """The prefixes of git are no part of a name; a hunk that was cut is shown as far as it goes."""
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\n… the diff goes on; it is cut here"
    assert list(parse_diff(diff)) == [Hunk("x", "a\n", "b\n", 1)]
    assert list(parse_diff("no diff at all")) == []
    assert list(parse_diff("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b", "y")) == [
        Hunk("y", "a\n", "b\n", 1)
    ]


@given(st.text())
def test_no_text_fails(text: str) -> None:
    """What is no diff gives something or nothing."""
    list(parse_diff(text))
