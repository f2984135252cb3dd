"""An anchored edit happens exactly where it was meant, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.plugins.files.edits import Edit, EditRefused, apply_edit

TEXT = "def a():\n    return 1\n\ndef b():\n    return 1\n\ndef c():\n    return 2\n"


def test_a_unique_text_is_replaced() -> None:
    """What occurs once is replaced there."""
    assert apply_edit(TEXT, Edit("p", old="return 2", new="return 3")) == TEXT.replace("return 2", "return 3")


def test_an_ambiguous_text_names_its_lines() -> None:
    """What occurs twice is refused with the lines of both."""
    with pytest.raises(EditRefused, match="2 times, at lines 2, 5"):
        apply_edit(TEXT, Edit("p", old="return 1", new="x"))


@pytest.mark.parametrize(
    ("prologue", "epilogue", "line"),
    [
        ("def b():", None, 5),
        ("def b():\n    ", None, 5),
        (None, "\n\ndef b", 2),
        ("def a", "def b", 2),
        ("def b", "def c", 5),
    ],
)
def test_anchors_tell_occurrences_apart(prologue: str | None, epilogue: str | None, line: int) -> None:
    """`prologue` and `epilogue` choose between several occurrences, touching or at a distance."""
    new = apply_edit(TEXT, Edit("p", old="return 1", new="return 9", prologue=prologue, epilogue=epilogue))
    assert [number for number, text in enumerate(new.split("\n"), 1) if "9" in text] == [line]


def test_insertion_at_an_anchor() -> None:
    """An empty `old` inserts after the prologue, or before the epilogue."""
    assert apply_edit("a\nb\n", Edit("p", old="", new="x\n", prologue="a\n")) == "a\nx\nb\n"
    assert apply_edit("a\nb\n", Edit("p", old="", new="x\n", epilogue="b\n")) == "a\nx\nb\n"
    assert apply_edit("ab ab", Edit("p", old="", new="-", prologue="b", epilogue=" a")) == "ab- ab"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (Edit("p", old="return  1", new="x"), "Lines 2 to 2 hold what is the same but for white space"),
        (Edit("p", old="\treturn 2\n", new="x"), "Lines 8 to 8"),
        (Edit("p", old="def c():\n    return 3", new="x"), "Lines 7 to 8 hold what is the nearest"),
        (Edit("p", old="quantum", new="x"), "Nothing in it is similar"),
        (Edit("p", old="", new="x"), "old is empty"),
        (Edit("p", old="a", new="a"), "the same"),
        (Edit("p", old="a"), "Give old"),
        (Edit("p"), "Give old"),
        (Edit("p", old="a", new="b", new_content="c"), "not both"),
        (Edit("p", old="return 2", new="x", prologue="return 1"), "prologue occurs 2 times"),
        (Edit("p", old="def a", new="x", prologue="def b"), "not between the anchors"),
        (Edit("p", old="return 2", new="x", prologue="nowhere at all"), "prologue does not occur"),
    ],
)
def test_a_refusal_says_how_to_correct_it(edit: Edit, says: str) -> None:
    """Each refused edit names the lines or the mistake."""
    with pytest.raises(EditRefused, match=says):
        apply_edit(TEXT, edit)


def test_overlapping_occurrences_count() -> None:
    """A text that overlaps itself is ambiguous."""
    with pytest.raises(EditRefused, match="2 times"):
        apply_edit("aaa", Edit("p", old="aa", new="b"))


def test_an_empty_file_is_edited(tmp_path: Path) -> None:
    """Nothing becomes something with an empty old; an old that cannot be there says what to do instead."""
    desk = Desk(tmp_path / "w")
    desk.call("writeNewFile", path="f", content="")
    with pytest.raises(ToolError, match=r"is empty.*new_content"):
        desk.call("updateFile", path="f", old="x", new="y")
    desk.call("updateFile", path="f", old="", new="first\n")
    assert (desk.workspace / "f").read_text() == "first\n"
    with pytest.raises(ToolError, match="writeNewFile"):
        desk.call("updateFile", path="g", new_content="x")


def test_bytes_that_are_no_text_are_shown_alike_everywhere(tmp_path: Path) -> None:
    """What cannot be shown is U+FFFD in a diff and in an excerpt as it is in readFile, never a question mark."""
    desk = Desk(tmp_path / "w")
    (desk.workspace / "f").write_bytes("schön ist größer\n".encode() + b"a \xff b\nc\n")
    assert "a \ufffd b" in desk.read("f")
    with pytest.raises(ToolError, match="a \ufffd b"):
        desk.call("updateFile", path="f", old="a ? b ", new="x")
    assert "a \ufffd b" in desk.call("updateFile", path="f", old="c\n", new="d\n")["diff"]
