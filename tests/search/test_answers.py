"""What a search says besides its lines: why there are none, and names that cannot be mistaken."""

from __future__ import annotations

import os
from pathlib import Path

from tests.search.desk import call_tool, plant


def test_nothing_found_says_what_was_not_searched(tmp_path: Path) -> None:
    """A glob that chooses nothing and ignored files are named where no line matches."""
    plant(
        tmp_path,
        {"a.py": "x\n", ".gitignore": "out/\n", "out/b.py": "needle\n", "app/[id]/page.ts": "needle\n"},
    )
    text = call_tool(tmp_path, "grep_content", pattern="needle", glob="*.py").text
    assert "No line matches in 1 file." in text
    assert "What git ignores was left out; include_ignored" in text
    assert "in 0 files" in call_tool(tmp_path, "grep_content", pattern="needle", glob="*.rs").text
    for said in (
        call_tool(tmp_path, "grep_content", pattern="needle", glob="app/[id]/*"),
        call_tool(tmp_path, "glob_files", pattern="app/[id]/*"),
    ):
        assert r"write \[ for a bracket" in said.text
    assert call_tool(tmp_path, "glob_files", pattern=r"app/\[id]/*").structured["files"] == [
        "app/[id]/page.ts"
    ]


def test_a_directory_with_a_slash_is_everything_in_it(tmp_path: Path) -> None:
    """`src/` chooses the files below it, and no file of that name."""
    plant(tmp_path, {"src/a/b.py": "x\n", "src/c.py": "x\n", "other.py": "x\n"})
    for pattern in ("src/", "s*/", "./src/"):
        assert call_tool(tmp_path, "glob_files", pattern=pattern).structured["files"] == [
            "src/a/b.py",
            "src/c.py",
        ]
    assert call_tool(tmp_path, "grep_content", pattern="x", glob="src/").structured["total"] == 2


def test_odd_names_are_spelt_out(tmp_path: Path) -> None:
    """A line end or an escape sequence in a name makes no second line, and odd bytes are told apart."""
    top = os.fsencode(tmp_path)
    for name in (b"a\nb", b"\xff", b"\xfe", b"\x1b[31m"):
        with open(top + b"/" + name, "wb") as file:
            file.write(b"needle\n")
    lines = call_tool(tmp_path, "glob_files", pattern="*").text.split("\n")
    assert lines == [r"\x1b[31m", r"a\nb", r"\xfe", r"\xff"]
    said = call_tool(tmp_path, "grep_content", pattern="needle")
    assert said.text.startswith("\\x1b[31m\n1: needle\n\na\\nb\n1: needle\n\n\\xfe\n")
    assert [match["path"] for match in said.structured["matches"]] == ["\x1b[31m", "a\nb", r"\xfe", r"\xff"]


def test_every_form_of_text_has_its_lines(tmp_path: Path) -> None:
    """Byte order marks, carriage returns, bytes that are no UTF-8, no end of line, no text at all."""
    plant(
        tmp_path,
        {
            "a": "needle",
            "b": "\n\nneedle\n",
            "c": b"\xef\xbb\xbfneedle\r\n",
            "d": "\ufeffone\r\nneedle\r\n".encode("utf-16-le"),
            "e": b"\xff\xfe\n",
            "f": "",
            "g": "\n",
            "h": b"caf\xe9 needle\n" + b"x\n" * 300 + b"needle",
            "i": "no",
        },
    )
    found = call_tool(tmp_path, "grep_content", pattern="^(.* )?needle$", context=1).structured["matches"]
    assert [(match["path"], match["line"], match["text"]) for match in found] == [
        ("a", 1, "needle"),
        ("b", 3, "needle"),
        ("c", 1, "needle"),
        ("d", 2, "needle"),
        ("h", 302, "needle"),
    ]
    found = call_tool(tmp_path, "grep_content", pattern="caf", path="h").structured["matches"]
    assert [match["text"] for match in found] == ["caf\ufffd needle"]


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """A search of hundreds of large files needs no more than some descriptors at once."""
    import resource

    for number in range(60):
        (tmp_path / f"{number:02d}").write_text("needle\n" + "x" * 40 + "\n" * 60_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        said = call_tool(tmp_path, "grep_content", pattern="needle").structured
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (said["total"], said["searched"]) == (60, 60)
    assert "unreadable" not in said
