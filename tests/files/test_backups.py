"""No content a tool has ever replaced or removed is lost, whatever is undone, redone or restored."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.filesystem.backup_directory import IDS

STEP = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from("ab"), st.sampled_from(["x", "y", "z"])),
    st.tuples(st.just("user"), st.sampled_from("ab"), st.sampled_from(["u", "v"])),
    st.tuples(st.sampled_from(["remove", "undo", "move", "restore"]), st.sampled_from("ab"), st.just("")),
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The tools on an empty workspace."""
    return Desk(tmp_path / "w")


def content(desk: Desk, path: str) -> str | None:
    """What a file holds, or None."""
    file = desk.workspace / path
    return file.read_text() if file.exists() else None


def stored(desk: Desk) -> set[str]:
    """Every content in the backups."""
    return {path.read_text() for path in (desk.workspace / ".jaato/backups/objects").glob("*")}


@pytest.mark.spec("S4", "What's Captured")
@settings(max_examples=35, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=12))
def test_no_sequence_of_changes_and_undos_loses_content(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    """After any edits, removals, moves, undos and user edits, what tools replaced is there or backed up."""
    desk = Desk(tmp_path_factory.mktemp("w"))
    for number, (step, path, text) in enumerate(steps):
        other = "b" if path == "a" else "a"
        before = {content(desk, "a"), content(desk, "b")} - {None}
        try:
            match step:
                case "edit" if content(desk, path) is None:
                    desk.call("writeNewFile", path=path, content=f"{text}{number}")
                case "edit":
                    desk.call("updateFile", path=path, new_content=f"{text}{number}")
                case "user":
                    before.discard(content(desk, path))
                    (desk.workspace / path).write_text(f"{text}{number}")
                case "remove":
                    desk.call("removeFile", path=path)
                case "move":
                    desk.call("moveFile", source_path=path, destination_path=other, overwrite=True)
                case "restore":
                    found = desk.call("listBackups", path=path)["backups"]
                    if found:
                        desk.call("restoreFile", path=path, backup_id=found[-1]["backup_id"])
                case _:
                    desk.call("undoFileChange", path=path)
        except ToolError:
            assert {content(desk, "a"), content(desk, "b")} - {None} == before
        assert before <= stored(desk) | {content(desk, "a"), content(desk, "b")}
        assert list((desk.workspace / ".jaato/backups/staging").glob("*")) == []


def test_undo_of_undo_is_redo(desk: Desk) -> None:
    """Undo is a change like any other: undone again, the edit is back, as often as one likes."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("updateFile", path="f", new_content="B")
    for expected in ("A", "B", "A", "B"):
        desk.call("undoFileChange", path="f")
        assert content(desk, "f") == expected


def test_undoing_a_creation_removes_and_undoing_again_recreates(desk: Desk) -> None:
    """A file that a tool created goes away with undo, and comes back."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("undoFileChange", path="f")
    assert content(desk, "f") is None
    desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "A"


def test_backups_survive_a_restart_and_every_version_can_be_restored(desk: Desk) -> None:
    """Another process lists the versions, newest first, and restores any of them with its mode."""
    desk.call("writeNewFile", path="f", content="0")
    (desk.workspace / "f").chmod(0o700)
    for number in range(1, 6):
        desk.call("updateFile", path="f", new_content=str(number))
    desk.call("removeFile", path="f")
    later = Desk(desk.workspace)
    found = later.call("listBackups", path="f")["backups"]
    assert [entry["before"] for entry in found] == ["removeFile", *["updateFile"] * 5, "writeNewFile"]
    for entry, expected in zip(found, ["5", "4", "3", "2", "1", "0"], strict=False):
        later.call("restoreFile", path="f", backup_id=entry["backup_id"])
        assert content(desk, "f") == expected
        assert (desk.workspace / "f").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ToolError, match="listBackups"):
        later.call("restoreFile", path="f", backup_id="nope")
    with pytest.raises(ToolError, match="No change"):
        later.call("undoFileChange", path="g")


def test_removed_links_come_back_as_links(desk: Desk) -> None:
    """Removing a link removes the link alone, and undo makes it again."""
    (desk.workspace / "target").write_text("T")
    (desk.workspace / "l").symlink_to("target")
    desk.call("removeFile", path="l")
    assert content(desk, "target") == "T"
    desk.call("undoFileChange", path="l")
    assert os.readlink(desk.workspace / "l") == "target"


@pytest.mark.spec("C7", "Context, sessions, enrichment (S3, S4)")
def test_restoring_follows_no_link(desk: Desk, tmp_path: Path) -> None:
    """A link put in the file's place is replaced, not written through; a linked directory is refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("OUT")
    (desk.workspace / "in").mkdir()
    (desk.workspace / "in/f").write_text("IN")
    desk.call("writeNewFile", path="d/f", content="A")
    desk.call("updateFile", path="d/f", new_content="B")
    (desk.workspace / "d/f").unlink()
    (desk.workspace / "d/f").symlink_to("../in/f")
    backup = desk.call("listBackups", path="d/f")["backups"][0]["backup_id"]
    desk.call("restoreFile", path="d/f", backup_id=backup)
    assert content(desk, "in/f") == "IN"
    assert not (desk.workspace / "d/f").is_symlink()
    assert content(desk, "d/f") == "A"
    (desk.workspace / "d").rename(desk.workspace / "d2")
    (desk.workspace / "d").symlink_to("in")
    with pytest.raises(ToolError):
        desk.call("undoFileChange", path="d/f")
    assert content(desk, "in/f") == "IN"
    (desk.workspace / "d").unlink()
    (desk.workspace / "d").symlink_to(outside)
    with pytest.raises(ToolError):
        desk.call("undoFileChange", path="d/f")
    assert (outside / "f").read_text() == "OUT"


def test_the_directory_is_private_and_ignored_by_git(desk: Desk) -> None:
    """Backups are readable by their owner alone and stay out of version control."""
    desk.call("writeNewFile", path="f", content="secret")
    desk.call("removeFile", path="f")
    top = desk.workspace / ".jaato/backups"
    assert stat.S_IMODE(top.stat().st_mode) == 0o700
    assert (top / ".gitignore").read_text() == "*\n"
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (top / "objects").iterdir())


@pytest.mark.parametrize(
    "part", [".jaato", ".jaato/backups", ".jaato/backups/objects", ".jaato/backups/records"]
)
def test_backups_go_through_no_link(desk: Desk, tmp_path: Path, part: str) -> None:
    """A workspace that brings its backup directory as a link gets no change and no file elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (desk.workspace / "f").write_text("A")
    link = desk.workspace / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    for name, arguments in (("updateFile", {"path": "f", "new_content": "B"}), ("removeFile", {"path": "f"})):
        with pytest.raises(ToolError, match="nothing was changed"):
            desk.call(name, **arguments)
    assert content(desk, "f") == "A"
    assert list(elsewhere.iterdir()) == []


def test_the_same_content_is_stored_once_and_ids_never_collide(desk: Desk) -> None:
    """A thousand identifiers are distinct and in order; equal contents share one object."""
    ids = [IDS.next() for _ in range(1000)]
    assert ids == sorted(set(ids))
    for name in ("a", "b"):
        desk.call("writeNewFile", path=name, content="same")
        desk.call("removeFile", path=name)
    assert len(list((desk.workspace / ".jaato/backups/objects").iterdir())) == 1


def test_old_backups_are_dropped_by_count_and_bytes(tmp_path: Path) -> None:
    """Beyond the bounds the oldest go at the next start, the newest always stays."""
    desk = Desk(tmp_path / "w")
    desk.call("writeNewFile", path="f", content="0")
    for number in range(30):
        desk.call("updateFile", path="f", new_content=f"{number}" * 100)
    few = Desk(tmp_path / "w", {"backups": {"max_count": 5}})
    few.call("writeNewFile", path="g", content="x")
    assert few.call("listBackups")["total"] == 6
    assert len(stored(few)) == 5
    small = Desk(tmp_path / "w", {"backups": {"max_bytes": 450}})
    small.call("writeNewFile", path="h", content="x")
    assert sum(len(text) for text in stored(small)) <= 450
    small.call("undoFileChange", path="f")
    assert content(small, "f") == "28" * 100


def test_a_damaged_backup_is_said_and_hides_no_other(desk: Desk) -> None:
    """A record that is no JSON is passed over, a content with another hash is refused."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("updateFile", path="f", new_content="B")
    desk.call("updateFile", path="f", new_content="C")
    records = sorted((desk.workspace / ".jaato/backups/records").rglob("*.json"))
    records[1].write_bytes(b"\0" * 50)
    found = desk.call("listBackups", path="f")["backups"]
    assert len(found) == 2
    for path in (desk.workspace / ".jaato/backups/objects").iterdir():
        path.write_text("?")
    with pytest.raises(ToolError, match="damaged"):
        desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "C"
