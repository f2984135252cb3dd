"""Bytes in, bytes out: an edit changes what it says and no other byte."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.edits import Edit, apply_edit
from jaato.tools.filesystem.text_encoding import NotText, form_of, lines_of

LINES = st.lists(
    st.tuples(st.text(st.sampled_from("abé €x\t"), max_size=6), st.sampled_from(["\n", "\r\n"])), max_size=12
)
ENCODINGS = {
    "utf-8": (b"", "utf-8"),
    "bom": (codecs.BOM_UTF8, "utf-8"),
    "utf-16-le": (codecs.BOM_UTF16_LE, "utf-16-le"),
    "utf-16-be": (codecs.BOM_UTF16_BE, "utf-16-be"),
    "latin-1": (b"", "latin-1"),
}


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_that_are_text_come_back(data: bytes) -> None:
    """Decoding and encoding gives the same bytes, valid UTF-8 or not."""
    try:
        form = form_of(data)
    except NotText:
        return
    assert form.encode(form.decode(data)) == data


@settings(max_examples=200, deadline=None)
@given(lines=LINES, encoding=st.sampled_from(sorted(ENCODINGS)), at=st.integers(0, 20), last=st.booleans())
def test_editing_one_line_keeps_every_other_byte(
    lines: list[tuple[str, str]], encoding: str, at: int, last: bool
) -> None:
    """One line replaced: the bytes before and after are identical, its line end and the final newline too."""
    mark, codec = ENCODINGS[encoding]
    lines = [(body.replace("€", "e") if codec == "latin-1" else body, end) for body, end in lines]
    at = at % (len(lines) + 1)
    ending = "" if last and at == len(lines) else "\r\n"
    head = "".join(body + end for body, end in lines[:at])
    tail = "".join(body + end for body, end in lines[at:])
    data = mark + f"{head}MARKéé{ending if not tail else ending or ''}{tail}".encode(codec)
    form = form_of(data)
    text = form.decode(data)
    new = form.encode(apply_edit(text, Edit("p", old="MARKéé", new="DONE")))
    assert new == data.replace("MARKéé".encode(codec), "DONE".encode(codec))


@settings(max_examples=200, deadline=None)
@given(lines=LINES, at=st.integers(0, 20), added=st.lists(st.text("xyz", max_size=3), min_size=1, max_size=3))
def test_rewriting_everything_keeps_the_line_ends_of_kept_lines(
    lines: list[tuple[str, str]], at: int, added: list[str]
) -> None:
    """`new_content` written with plain newlines keeps each unchanged line's own end."""
    numbered = [(f"{index} {body}", end) for index, (body, end) in enumerate(lines)]
    raw = "".join(body + end for body, end in numbered)
    at = at % (len(numbered) + 1)
    bodies = [body for body, _ in numbered]
    content = "".join(
        f"{body}\n" for body in [*bodies[:at], *(f"new {text}" for text in added), *bodies[at:]]
    )
    after = apply_edit(raw, Edit("p", new_content=content))
    kept = [line for line in lines_of(after) if not line.startswith("new ")]
    assert "".join(kept) == raw


def test_inserted_lines_take_the_line_end_of_their_surroundings(tmp_path: Path) -> None:
    """A file with CR LF gets CR LF, also for lines that are added; a diff shows them plainly."""
    desk = Desk(tmp_path)
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    said = desk.call("updateFile", path="f", old="two\n", new="two\nand a half\n")
    assert (tmp_path / "f").read_bytes() == b"one\r\ntwo\r\nand a half\r\nthree\r\n"
    assert said["diff"] == "@@ -1,3 +1,4 @@\n one\n two\n+and a half\n three"


def test_new_content_keeps_mark_newline_style_and_final_newline(tmp_path: Path) -> None:
    """A whole new content in a CR LF file with a mark is written with both, and ends as the file ended."""
    desk = Desk(tmp_path)
    (tmp_path / "f").write_bytes(codecs.BOM_UTF8 + b"a\r\nb\r\n")
    desk.call("updateFile", path="f", new_content="a\nc")
    assert (tmp_path / "f").read_bytes() == codecs.BOM_UTF8 + b"a\r\nc\r\n"


def test_a_character_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    """A Latin-1 file does not take a euro sign, and stays as it is."""
    desk = Desk(tmp_path)
    (tmp_path / "f").write_bytes(b"caf\xe9\n")
    assert desk.read("f").startswith("café\n")
    with pytest.raises(ToolError, match="latin-1"):
        desk.call("updateFile", path="f", old="café", new="5 €")
    desk.call("updateFile", path="f", old="café", new="thé")
    assert (tmp_path / "f").read_bytes() == b"th\xe9\n"


def test_one_bad_byte_in_utf8_stays(tmp_path: Path) -> None:
    """A stray byte in a UTF-8 file survives an edit elsewhere."""
    desk = Desk(tmp_path)
    (tmp_path / "f").write_bytes("é€ü\n".encode() + b"\xff\nend\n")
    desk.call("updateFile", path="f", old="end", new="END")
    assert (tmp_path / "f").read_bytes() == "é€ü\n".encode() + b"\xff\nEND\n"


def test_a_binary_file_is_not_edited(tmp_path: Path) -> None:
    """Bytes with NUL are no text; the error says so and nothing changes."""
    desk = Desk(tmp_path)
    (tmp_path / "f").write_bytes(b"a\0b")
    with pytest.raises(ToolError, match="binary"):
        desk.call("updateFile", path="f", old="a", new="b")
    assert (tmp_path / "f").read_bytes() == b"a\0b"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    old=st.lists(st.sampled_from("abc"), max_size=30),
    new=st.lists(st.sampled_from("abc"), max_size=30),
)
def test_a_diff_applies(old: list[str], new: list[str]) -> None:
    """The lines a diff shows, put in place of the ones it takes away, make the new text."""
    before, after = [f"{x}\n" for x in old], [f"{x}\n" for x in new]
    rebuilt: list[str] = []
    at = 0
    for line in make_unified_diff("".join(before), "".join(after)).split("\n"):
        if line.startswith("@@"):
            start, count = (int(part) for part in line.split()[1][1:].split(","))
            start = start - 1 if count else start
            rebuilt += before[at:start]
            at = start
        elif line:
            if line[0] in " -":
                assert before[at] == line[1:] + "\n"
                at += 1
            if line[0] in " +":
                rebuilt.append(line[1:] + "\n")
    assert rebuilt + before[at:] == after


@pytest.mark.parametrize("place", [0, 100, 199, 5_000, 999_999])
def test_a_change_in_a_long_line_is_seen(place: int) -> None:
    """A line is cut around its first difference, so that none hides behind what is not shown."""
    old = "x" * 1_000_000
    new = f"{old[:place]}evil{old[place:]}"
    diff = make_unified_diff(f"{old}\n", f"{new}\n")
    assert "evil" in diff
    assert "(1000004 characters)" in diff
    assert max(map(len, diff.split("\n"))) < 300


def test_the_end_of_a_long_new_line_is_seen() -> None:
    """Of an added line that is cut, the end is shown too."""
    diff = make_unified_diff("", f"x = 1{' ' * 1_000}; evil()\n")
    assert diff.endswith("; evil() (1013 characters)")
    assert "+x = 1   " in diff
