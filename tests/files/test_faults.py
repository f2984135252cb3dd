"""Full disks, foreign owners, sudden death and edits by others: nothing is half written, nothing lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.filesystem.atomic_replace import FileChanged
from jaato.tools.filesystem.changes import Change


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def tree(top: Path) -> dict[str, bytes]:
    """Every file outside the backups with its bytes."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".jaato" not in path.parts
    }


def test_a_full_disk_changes_nothing(small_disk: Path) -> None:
    """Whatever does not fit is refused with the reason; every file is as it was and no remains are left."""
    desk = Desk(small_disk)
    desk.call("writeNewFile", path="a", content="a" * 200_000)
    desk.call("writeNewFile", path="b", content="b" * 200_000)
    before = tree(small_disk)
    for name, arguments in (
        ("updateFile", {"path": "a", "new_content": "x" * 900_000}),
        ("writeNewFile", {"path": "deep/c", "content": "x" * 900_000}),
        ("multiFileEdit", {"edits": [{"path": path, "new_content": "y" * 400_000} for path in "ab"]}),
    ):
        with pytest.raises(ToolError, match="full"):
            desk.call(name, **arguments)
        assert tree(small_disk) == before
        assert not (small_disk / "deep").exists()
        assert list((small_disk / ".jaato/backups/staging").iterdir()) == []
    assert [entry["before"] for entry in desk.call("listBackups")["backups"]] == ["writeNewFile"] * 2


def test_another_user_is_told_what_is_denied() -> None:
    """In directories and with files that belong to somebody else, each tool says so and changes nothing."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        w = top / "w"
        w.mkdir()
        (w / "mine").mkdir()
        os.chown(w / "mine", 65534, 65534)
        (w / "locked").mkdir()
        (w / "locked/f").write_text("x")
        (w / "locked/private").write_text("secret")
        (w / "locked/private").chmod(0o600)
        script = """
import os, sys
from pathlib import Path
from jaato.errors import ToolError
from tests.files.desk import Desk
top = Path(sys.argv[1])
desk = Desk(top / "w" / "mine", {"granted": [str(top / "w")]})
warm = Desk(Path(sys.argv[2]))  # loads every module while it still may
warm.call("writeNewFile", path="warm", content="up")
warm.call("moveFile", source_path="warm", destination_path="up")
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
desk.call("writeNewFile", path="own", content="fine")
f = str(top / "w/locked/f")
for name, arguments in (
    ("updateFile", {"path": f, "new_content": "y"}),
    ("removeFile", {"path": f}),
    ("writeNewFile", {"path": str(top / "w/locked/g"), "content": "y"}),
    ("moveFile", {"source_path": f, "destination_path": "stolen"}),
    ("moveFile", {"source_path": "own", "destination_path": f, "overwrite": True}),
    ("createDirectory", {"path": str(top / "w/locked/d")}),
    ("readFile", {"path": str(top / "w/locked/private")}),
):
    try:
        desk.call(name, **arguments)
    except ToolError as error:
        assert "denied" in str(error), (name, error)
    else:
        raise SystemExit(name)
assert desk.call("listBackups")["total"] == 1
"""
        done = subprocess.run(
            [sys.executable, "-c", script, name, f"{name}/warm"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert sorted(tree(w)) == ["locked/f", "locked/private", "mine/own"]
        assert (w / "locked/f").read_text() == "x"


def test_a_change_in_between_is_not_overwritten(tmp_path: Path) -> None:
    """A file that somebody else writes between reading and replacing keeps their content, however."""
    desk = Desk(tmp_path / "w")
    file = desk.workspace / "f"
    call = Call(id="c", name="updateFile", arguments={})
    changes = desk.plugin.changes

    def in_place() -> None:
        file.write_text("theirs")

    def same_size_and_time() -> None:
        info = file.stat()
        file.write_text("OURS")
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))

    def by_rename() -> None:
        (desk.workspace / "n").write_text("theirs")
        (desk.workspace / "n").rename(file)

    def by_link() -> None:
        file.unlink()
        file.symlink_to("other")

    for meddle in (in_place, same_size_and_time, by_rename, by_link):
        for content in (b"new", None):
            file.unlink(missing_ok=True)
            file.write_text("ours")
            with changes.target("f") as target:
                change = Change(target, "updateFile", changes.see(target), content)
                meddle()
                with pytest.raises(FileChanged):
                    changes.commit([change], call)
            assert os.path.lexists(file)
            assert file.is_symlink() or file.read_text() in ("theirs", "OURS")


def test_a_created_file_is_not_overwritten(tmp_path: Path) -> None:
    """A file that appears under the name meanwhile stays."""
    desk = Desk(tmp_path / "w")
    with desk.plugin.changes.target("f") as target:
        (desk.workspace / "f").write_text("theirs")
        with pytest.raises(FileChanged):
            desk.plugin.changes.commit(
                [Change(target, "writeNewFile", None, b"ours")], Call(id="c", name="x", arguments={})
            )
    assert (desk.workspace / "f").read_text() == "theirs"


def test_two_processes_worth_of_threads_lose_no_edit(tmp_path: Path) -> None:
    """Two plugins that edit one file at once: every edit that succeeded is in the file."""
    first, second = Desk(tmp_path / "w"), Desk(tmp_path / "w")
    (tmp_path / "w/f").write_text("end\n")
    done: list[str] = []

    def work(desk: Desk, name: str) -> None:
        for number in range(40):
            with contextlib.suppress(ToolError):
                desk.call("updateFile", path="f", old="end\n", new=f"{name}{number}\nend\n")
                done.append(f"{name}{number}")

    threads = [threading.Thread(target=work, args=pair) for pair in ((first, "a"), (second, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((tmp_path / "w/f").read_text().split()) == sorted([*done, "end"])
    assert len(done) > 10


WRITER = """
import os, sys
from pathlib import Path
from tests.files.desk import Desk
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        break
    os.waitpid(child, 0)
    print("killed", flush=True)
else:
    sys.exit()
desk = Desk(Path(sys.argv[1]))
desk.call("listBackups")
number = "abcdefgh".index((desk.workspace / "f").read_text()[0])  # the first change is one
print(os.getpid(), flush=True)
while True:
    number += 1
    letter = "abcdefgh"[number % 8]
    desk.call("updateFile", path="f", new_content=letter * 300_000)
    desk.call("writeNewFile", path=f"new{number}", content="n" * 100_000)
    desk.call("removeFile", path=f"new{number}")
"""


def whole(top: Path) -> None:
    """After a kill each file is old or new, and none is between; the new ones are removed."""
    for path, data in tree(top).items():
        assert len(data) == (300_000 if path == "f" else 100_000)
        assert len(set(data)) == 1, path
        assert path == "f" or path.startswith("new")
    for new in top.glob("new*"):
        new.unlink()


@pytest.mark.slow
def test_kill_9_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """Killed at any moment: the file is whole, nothing is half-written, the next start tidies up."""
    w = tmp_path / "w"
    w.mkdir()
    (w / "f").write_text("a" * 300_000)
    dice = random.Random(7)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, w], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writers:
        for _ in range(10):
            assert writers.stdin is not None
            assert writers.stdout is not None
            writers.stdin.write("\n")
            writers.stdin.flush()
            writer = int(writers.stdout.readline())
            time.sleep(dice.random() * 0.15)
            os.kill(writer, signal.SIGKILL)
            assert writers.stdout.readline() == "killed\n"
            whole(w)
    desk = Desk(w)
    desk.call("writeNewFile", path="g", content="x")
    assert list((w / ".jaato/backups/staging").iterdir()) == []
    assert sorted(path.name for path in w.iterdir()) == [".jaato", "f", "g"]
    before = (w / "f").read_bytes()
    desk.call("undoFileChange", path="f")
    desk.call("undoFileChange", path="f")
    assert (w / "f").read_bytes() == before
