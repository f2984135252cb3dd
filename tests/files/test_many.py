"""Changes of many places and files by one call: `multiFileEdit` and `findAndReplace`."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError


def test_many_edits_are_all_or_nothing(desk: Desk) -> None:
    """Several edits apply in order over several files; one that does not fit leaves every file as it was."""
    desk.call("writeNewFile", path="a", content="1\n2\n")
    desk.call("writeNewFile", path="b", content="3\n")
    edits: list[dict[str, Any]] = [
        {"path": "a", "old": "1", "new": "one"},
        {"path": "b", "new_content": "three"},
        {"path": "a", "old": "one\n2", "new": "one\ntwo"},
        {"path": "n/c", "new_content": "new"},
    ]
    with pytest.raises(ToolError, match=r"Edit 5 of 5.*No file was changed"):
        desk.call("multiFileEdit", edits=[*edits, {"path": "b", "old": "nope", "new": "x"}])
    assert (desk.workspace / "a").read_text() == "1\n2\n"
    assert not (desk.workspace / "n").exists()
    said = desk.call("multiFileEdit", edits=edits)
    assert [entry["path"] for entry in said["files"]] == ["a", "b", "n/c"]
    assert (desk.workspace / "a").read_text() == "one\ntwo\n"
    assert (desk.workspace / "b").read_text() == "three\n"
    assert (desk.workspace / "n/c").read_text() == "new"


def test_many_edits_roll_back_when_a_later_file_cannot_be_written(desk: Desk) -> None:
    """A failure in the middle of replacing puts the files before it back, mode included."""
    for name in ("a", "sub/b"):
        desk.call("writeNewFile", path=name, content="old\n")
    (desk.workspace / "a").chmod(0o640)
    os.system(f"chattr +i {desk.workspace}/sub/b")
    try:
        with pytest.raises(ToolError, match="sub/b"):
            desk.call(
                "multiFileEdit", edits=[{"path": path, "old": "old", "new": "new"} for path in ("a", "sub/b")]
            )
    finally:
        os.system(f"chattr -i {desk.workspace}/sub/b")
    assert (desk.workspace / "a").read_text() == "old\n"
    assert (desk.workspace / "a").stat().st_mode & 0o777 == 0o640
    assert desk.call("listBackups", path="a")["total"] == 1
    assert list((desk.workspace / ".jaato/backups/staging").iterdir()) == []


def test_find_and_replace(desk: Desk) -> None:
    """A dry run shows and changes nothing; the glob chooses; patterns refer to groups; line ends stay."""
    (desk.workspace / "src").mkdir()
    (desk.workspace / "src/a.py").write_bytes(b"x1\r\nx2\n")
    (desk.workspace / "b.txt").write_text("x3\n")
    (desk.workspace / "bin").write_bytes(b"x\0")
    dry = desk.call("findAndReplace", pattern="x", replacement="y")
    assert (dry["matches"], dry["dry_run"]) == (3, True)
    assert (desk.workspace / "b.txt").read_text() == "x3\n"
    said = desk.call(
        "findAndReplace",
        pattern=r"x(\d)$",
        replacement=r"\1x",
        regex=True,
        glob="**/*.{py,js}",
        dry_run=False,
    )
    assert [entry["path"] for entry in said["files"]] == ["src/a.py"]
    assert (desk.workspace / "src/a.py").read_bytes() == b"1x\r\n2x\n"
    assert desk.call("findAndReplace", pattern="absent", replacement="y")["files"] == []
    for pattern, says in (("", "empty"), ("(", "Correct it"), ("(?P<a", "Correct it")):
        with pytest.raises(ToolError, match=says):
            desk.call("findAndReplace", pattern=pattern, replacement="y", regex=True)


def test_find_and_replace_takes_what_a_search_takes(desk: Desk) -> None:
    """Hidden and git-ignored files, dependencies and links are left as they are, unless the path names the file."""
    taken = ("a.txt", "src/a.txt")
    left = (".env", ".h/a.txt", "out/a.txt", "node_modules/m/a.txt", "src/__pycache__/a.txt")
    for name in (*taken, *left):
        (desk.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.workspace / name).write_text("x\n")
    (desk.workspace / ".gitignore").write_text("out/\n")
    (desk.workspace / "link.txt").symlink_to("out/a.txt")
    for glob in ("*", "*.txt", "**/*.txt"):
        said = desk.call("findAndReplace", pattern="x", replacement="y", glob=glob)
        assert [entry["path"] for entry in said["files"]] == [*taken]
    said = desk.call("findAndReplace", pattern="x", replacement="y", path="out/a.txt")
    assert [entry["path"] for entry in said["files"]] == ["out/a.txt"]


def test_an_exploding_pattern_is_stopped() -> None:
    """A pattern with nested repeats ends in an error, not in a hang."""
    from jaato.plugins.files.find_replace import PatternRefused, find_matches
    from jaato.tools.cancel import CancelToken

    with pytest.raises(PatternRefused, match="nested repeats"):
        find_matches(["a" * 60 + "b"], "(a+)+$", "", CancelToken(), timeout_s=0.3)


def test_a_dry_run_counts_what_is_too_much_to_change(desk: Desk) -> None:
    """More files than one call may change are counted by the dry run and refused by the other."""
    for number in range(210):
        (desk.workspace / str(number)).write_text("x")
    said = desk.call("findAndReplace", pattern="x", replacement="y")
    assert (said["matches"], said["matching_files"], len(said["files"])) == (210, 210, 200)
    with pytest.raises(ToolError, match="210 files"):
        desk.call("findAndReplace", pattern="x", replacement="y", dry_run=False)
    assert (desk.workspace / "0").read_text() == "x"
