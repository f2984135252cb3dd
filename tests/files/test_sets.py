"""A set of edits is all or nothing, also when the process that makes it is killed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.files.desk import Desk

from jaato.tools.call import Call
from jaato.tools.filesystem.backup_directory import content_key
from jaato.tools.filesystem.changes import Change

WRITER = """
import os, signal, sys
from pathlib import Path
from jaato.tools.filesystem.atomic_replace import PendingFile
from tests.files.desk import Desk
desk = Desk(Path(sys.argv[1]))
left = int(sys.argv[2])
def dying(publish):
    def step(self, *seen):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return publish(self, *seen)
    return step
PendingFile.publish_over, PendingFile.publish_new = dying(PendingFile.publish_over), dying(PendingFile.publish_new)
desk.call("multiFileEdit", edits=[{"path": path, "new_content": "new"} for path in ("a", "b", "c", "d/e")])
"""


def killed(workspace: Path, after: int) -> None:
    """Four edits by a process that is killed when so many of them have appeared."""
    done = subprocess.run([sys.executable, "-c", WRITER, workspace, str(after)], check=False)
    assert done.returncode == -9


@pytest.mark.parametrize("after", range(4))
def test_a_killed_set_is_taken_back_at_the_next_start(tmp_path: Path, after: int) -> None:
    """Whatever had appeared is gone again, old content is back, and nothing of the set is left over."""
    w = tmp_path / "w"
    w.mkdir()
    for name in "abc":
        (w / name).write_text("old")
    killed(w, after)
    assert sum((w / name).read_text() == "new" for name in "abc") == after
    desk = Desk(w)
    assert [(w / name).read_text() for name in "abc"] == ["old"] * 3
    assert not (w / "d/e").exists()
    desk.call("writeNewFile", path="x", content="x")
    assert list((w / ".jaato/backups/staging").iterdir()) == []


def test_what_was_changed_since_the_kill_stays(tmp_path: Path) -> None:
    """A file that somebody edited after the process was killed keeps that edit; the others go back."""
    w = tmp_path / "w"
    w.mkdir()
    for name in "abc":
        (w / name).write_text("old")
    killed(w, 2)
    (w / "a").write_text("theirs")
    Desk(w)
    assert [(w / name).read_text() for name in "abc"] == ["theirs", "old", "old"]


def test_a_set_at_work_is_left_alone(tmp_path: Path) -> None:
    """A session that starts while another is in the middle of its set takes nothing back."""
    desk = Desk(tmp_path / "w")
    (desk.workspace / "a").write_text("old")
    changes = desk.plugin.changes
    with desk.plugin.backups.open() as dirs, changes.target("a") as target:
        change = Change(target, "multiFileEdit", changes.see(target), b"new")
        record = changes.back_up(dirs, change, Call("c", "x", {}))
        after = content_key("file", hashlib.sha256(b"new").hexdigest())
        record = msgspec.structs.replace(record, after=after)
        name = desk.plugin.backups.begin(dirs, [record])
        (desk.workspace / "a").write_text("new")
        Desk(tmp_path / "w")
        assert (desk.workspace / "a").read_text() == "new"
        assert (desk.workspace / ".jaato/backups/staging" / name).exists()
        desk.plugin.backups.end(dirs, name)
