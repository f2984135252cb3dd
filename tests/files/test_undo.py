"""Undo takes back what a tool did, and never what somebody else made of a file since."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.filesystem.atomic_replace import FileChanged


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The tools on an empty workspace."""
    return Desk(tmp_path / "w")


def content(desk: Desk, path: str) -> str | None:
    """What a file holds, or None."""
    file = desk.workspace / path
    return file.read_text() if file.exists() else None


@pytest.mark.spec("S4", "What's Captured")
def test_an_edit_of_the_user_is_not_undone(desk: Desk) -> None:
    """What the user wrote since stays; the version before the tool's change comes back by its id, when asked for."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("updateFile", path="f", new_content="B")
    (desk.workspace / "f").write_text("USER")
    backup = desk.call("listBackups", path="f")["backups"][0]["backup_id"]
    with pytest.raises(FileChanged, match=backup):
        desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "USER"
    desk.call("restoreFile", path="f", backup_id=backup)
    assert content(desk, "f") == "A"
    desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "USER"


def test_undo_of_a_creation_deletes_no_work(desk: Desk) -> None:
    """A file that the user has worked on since a tool created or copied it is not deleted."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("copyFile", source_path="f", destination_path="g")
    for name in "fg":
        (desk.workspace / name).write_text("hours of work")
        with pytest.raises(FileChanged, match="removeFile"):
            desk.call("undoFileChange", path=name)
        assert content(desk, name) == "hours of work"


def test_undo_of_a_removal_does_not_replace_a_new_file(desk: Desk) -> None:
    """A file made anew under the name of a removed one stays."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("removeFile", path="f")
    (desk.workspace / "f").write_text("new")
    with pytest.raises(FileChanged, match="restoreFile"):
        desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "new"


def test_undo_of_a_move_deletes_nothing_when_the_old_name_is_taken(desk: Desk) -> None:
    """With another file under the old name the moved one stays where it is, and both are whole."""
    desk.call("writeNewFile", path="a", content="A")
    desk.call("moveFile", source_path="a", destination_path="b")
    (desk.workspace / "a").write_text("other")
    with pytest.raises(FileChanged, match="moveFile"):
        desk.call("undoFileChange", path="b")
    with pytest.raises(ToolError):
        desk.call("undoFileChange", path="a")
    assert (content(desk, "a"), content(desk, "b")) == ("other", "A")


def test_what_the_user_has_put_back_is_not_deleted(desk: Desk) -> None:
    """A change that the user reverted by hand is not taken for the one before it when that made the file."""
    desk.call("writeNewFile", path="f", content="A")
    desk.call("updateFile", path="f", new_content="B")
    (desk.workspace / "f").write_text("A")
    with pytest.raises(ToolError, match="as it was before"):
        desk.call("undoFileChange", path="f")
    assert content(desk, "f") == "A"


def test_a_directory_in_the_place_of_a_file_stays(desk: Desk) -> None:
    """Undo does not touch a directory that stands where the tool's file was."""
    desk.call("writeNewFile", path="f", content="A")
    (desk.workspace / "f").unlink()
    (desk.workspace / "f").mkdir()
    (desk.workspace / "f/work").write_text("W")
    with pytest.raises(ToolError):
        desk.call("undoFileChange", path="f")
    assert content(desk, "f/work") == "W"


def test_restoring_deletes_nothing(desk: Desk) -> None:
    """The backup of a creation holds no file, so restoring it is refused instead of removing the file."""
    desk.call("writeNewFile", path="f", content="A")
    backup = desk.call("listBackups", path="f")["backups"][0]["backup_id"]
    with pytest.raises(ToolError, match="removeFile"):
        desk.call("restoreFile", path="f", backup_id=backup)
    assert content(desk, "f") == "A"


def test_undo_goes_on_after_a_directory_was_moved(desk: Desk) -> None:
    """A moved directory comes back with everything in it, by either name, and goes again."""
    desk.call("createDirectory", path="d")
    (desk.workspace / "d/f").write_text("F")
    desk.call("moveFile", source_path="d", destination_path="e")
    for name, there in (("d", "d"), ("d", "e"), ("e", "d")):
        desk.call("undoFileChange", path=name)
        assert content(desk, f"{there}/f") == "F"
    shutil.rmtree(desk.workspace / "d")
    with pytest.raises(ToolError):
        desk.call("undoFileChange", path="d")
