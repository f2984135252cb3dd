"""Many sessions, large files and little room."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import CancelledException, ToolError
from jaato.tools.call import Call

SPARSE = 1 << 28


def test_ten_sessions_edit_one_file(tmp_path: Path) -> None:
    """Anchored edits of one file by ten sessions at once all succeed, and every one is in the file."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w/f").write_text("end\n")
    failed: list[ToolError] = []

    def work(number: int) -> None:
        desk = Desk(tmp_path / "w")
        for turn in range(4):
            try:
                desk.call("updateFile", path="f", old="end\n", new=f"{number}.{turn}\nend\n")
            except ToolError as error:
                failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    wanted = sorted([*(f"{number}.{turn}" for number in range(10) for turn in range(4)), "end"])
    assert sorted((tmp_path / "w/f").read_text().split()) == wanted


def test_a_sparse_file_is_copied_sparse(tmp_path: Path) -> None:
    """A large file of holes is copied as such, its bytes where they were."""
    desk = Desk(tmp_path / "w")
    with open(desk.workspace / "disk", "wb") as file:
        file.write(b"head")
        file.truncate(SPARSE)
        file.seek(SPARSE // 2 + 7)
        file.write(b"middle")
    said = desk.call("copyFile", source_path="disk", destination_path="copy")
    assert said["size_bytes"] == SPARSE
    copy = desk.workspace / "copy"
    assert copy.stat().st_size == SPARSE
    assert copy.stat().st_blocks * 512 < 8 << 20
    with open(copy, "rb") as file:
        assert file.read(4) == b"head"
        file.seek(SPARSE // 2 + 7)
        assert file.read(7) == b"middle\0"


def test_a_cancelled_copy_leaves_nothing(tmp_path: Path) -> None:
    """A copy ends when its call is cancelled; no part of it is seen."""
    desk = Desk(tmp_path / "w")
    with open(desk.workspace / "disk", "wb") as file:
        file.truncate(64 << 30)
    arguments = {"source_path": "disk", "destination_path": "deep/copy"}
    call = Call("c", "copyFile", arguments)
    timer = threading.Timer(0.2, call.token.cancel)
    timer.start()
    with pytest.raises(CancelledException):
        desk.tools["copyFile"].run(arguments, call)
    timer.join()
    assert sorted(os.listdir(desk.workspace)) == [".jaato", "disk"]


def test_backups_stay_within_their_bytes_while_a_session_works(tmp_path: Path) -> None:
    """A session that replaces large files over and over never keeps much more than the bound."""
    desk = Desk(tmp_path / "w", {"backups": {"max_bytes": 1_000_000}})
    desk.call("writeNewFile", path="f", content="")
    objects = desk.workspace / ".jaato/backups/objects"
    for number in range(30):
        desk.call("updateFile", path="f", new_content=f"{number:02d}" * 100_000)
        assert sum(path.stat().st_size for path in objects.iterdir()) <= 1_000_000 + 2 * 200_000
    desk.call("undoFileChange", path="f")
    assert (desk.workspace / "f").read_text() == "28" * 100_000


def test_a_directory_among_the_remains_does_not_stop_work(tmp_path: Path) -> None:
    """What is no file in the staging directory is left there; changes go on."""
    desk = Desk(tmp_path / "w")
    desk.call("writeNewFile", path="f", content="A")
    (desk.workspace / ".jaato/backups/staging/d").mkdir()
    Desk(tmp_path / "w").call("updateFile", path="f", new_content="B")
    assert (desk.workspace / "f").read_text() == "B"
