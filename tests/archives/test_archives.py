"""The archive tools beside the programs people use."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.archives.create import ArchiveWriter, is_excluded
from jaato.plugins.archives.plugin import ArchivesPlugin
from jaato.tools.filesystem.containment import Roots

KINDS = ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace with a small tree: text, a program, an empty directory, a link, odd names."""
    made = Desk(ArchivesPlugin, tmp_path / "w")
    top = made.workspace / "tree"
    (top / "deep/er").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "deep/er/text.txt").write_text("hello\n" * 1000)
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "näme with spaces").write_bytes(os.urandom(5000))
    (top / "link").symlink_to("deep/er/text.txt")
    return made


def shape(top: Path) -> dict[str, Any]:
    """What a tree holds."""
    found: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def refused(desk: Desk, name: str, **arguments: Any) -> str:
    """The message of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        desk.call(name, **arguments)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_comes_out_again(desk: Desk, kind: str) -> None:
    """A tree survives packing and extracting in every format, links and executable files included, by tar and unzip too."""
    said = desk.call("archive_create", path=f"o.{kind}", paths=["tree"])
    assert (said["files"], said["format"]) == (4, kind)
    assert said["archive_bytes"] == (desk.workspace / f"o.{kind}").stat().st_size
    listed = desk.call("archive_list", path=f"o.{kind}")
    assert listed["members"] == 8
    assert listed["format"] == kind
    out = desk.call("archive_extract", path=f"o.{kind}", destination="out/here")
    assert out["extracted"] == 4
    assert "left_out" not in out
    assert shape(desk.workspace / "out/here/tree") == shape(desk.workspace / "tree")
    (desk.workspace / "theirs").mkdir()
    command = ["unzip", "-q", f"../o.{kind}"] if kind == "zip" else ["tar", "-xf", f"../o.{kind}"]
    subprocess.run(command, cwd=desk.workspace / "theirs", check=True)
    assert shape(desk.workspace / "theirs/tree") == shape(desk.workspace / "tree")


@pytest.mark.parametrize(
    "command",
    [
        ["zip", "-qry", "o.zip", "tree"],
        ["tar", "-cf", "o.tar", "tree"],
        ["tar", "--format=gnu", "-czf", "o.tgz", "tree"],
        ["tar", "--format=ustar", "-cjf", "o.tbz2", "tree"],
        ["tar", "--format=pax", "-cJf", "o.data", "tree"],
        ["tar", "--format=v7", "-cf", "o.tar", "tree"],
    ],
)
def test_archives_of_other_programs_are_extracted(desk: Desk, command: list[str]) -> None:
    """What zip and tar make is understood by its content, whatever the file is called."""
    subprocess.run(command, cwd=desk.workspace, check=True)
    path = next(part for part in command if part.startswith("o."))
    said = desk.call("archive_extract", path=path, destination="out")
    assert said["extracted"] == 4
    assert shape(desk.workspace / "out/tree") == shape(desk.workspace / "tree")


def test_sparse_files_and_hard_links_are_written_out(desk: Desk) -> None:
    """A hole becomes zeros and counts in full; a hard link becomes a copy."""
    with open(desk.workspace / "tree/sparse", "wb") as file:
        file.truncate(3_000_000)
        file.seek(1_000_000)
        file.write(b"x")
    os.link(desk.workspace / "tree/run.sh", desk.workspace / "tree/same.sh")
    subprocess.run(["tar", "-cSf", "o.tar", "tree"], cwd=desk.workspace, check=True)
    said = desk.call("archive_extract", path="o.tar", destination="out")
    assert said["bytes"] > 3_000_000
    assert shape(desk.workspace / "out/tree") == shape(desk.workspace / "tree")
    assert (desk.workspace / "out/tree/same.sh").stat().st_nlink == 1


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)
def test_a_single_compressed_file_is_extracted(desk: Desk, suffix: str, pack: Any) -> None:
    """A compressed file that holds no archive is one file without the suffix."""
    (desk.workspace / f"log.txt.{suffix}").write_bytes(pack(b"line\n" * 10_000))
    assert desk.call("archive_extract", path=f"log.txt.{suffix}", destination="out")["names"] == ["log.txt"]
    assert (desk.workspace / "out/log.txt").read_bytes() == b"line\n" * 10_000


def test_members_are_chosen_by_name_directory_or_pattern(desk: Desk) -> None:
    """Only what is named is extracted or listed."""
    desk.call("archive_create", path="o.tar.gz", paths=["tree"], exclude=["*/näme*", "tree/empty"])
    assert desk.call("archive_list", path="o.tar.gz")["members"] == 6
    desk.call("archive_extract", path="o.tar.gz", destination="a", members=["tree/deep"])
    assert set(shape(desk.workspace / "a")) == {"tree", "tree/deep", "tree/deep/er", "tree/deep/er/text.txt"}
    desk.call("archive_extract", path="o.tar.gz", destination="b", members=["*.sh"])
    assert set(shape(desk.workspace / "b")) == {"tree", "tree/run.sh"}


def test_nothing_is_overwritten_unless_asked(desk: Desk) -> None:
    """Files that exist are left as they are and reported; `overwrite` replaces them, but no directory and no link."""
    desk.call("archive_create", path="o.zip", paths=["tree"])
    out = desk.workspace / "out/tree"
    out.mkdir(parents=True)
    (out / "run.sh").write_text("mine")
    (out / "link").symlink_to("/etc/passwd")
    said = desk.call("archive_extract", path="o.zip", destination="out")
    assert (out / "run.sh").read_text() == "mine"
    assert {entry["name"] for entry in said["left_out"]} == {"tree/run.sh", "tree/link"}
    said = desk.call("archive_extract", path="o.zip", destination="out", overwrite=True)
    assert (out / "run.sh").read_text() == "#!/bin/sh\n"
    assert os.readlink(out / "link") == "/etc/passwd"
    assert said["replaced"] == 3
    assert "exists" in refused(desk, "archive_create", path="o.zip", paths=["tree"])
    desk.call("archive_create", path="o.zip", paths=["tree/run.sh"], overwrite=True)
    assert zipfile.ZipFile(desk.workspace / "o.zip").namelist() == ["run.sh"]


def test_packing_stays_below_the_roots(desk: Desk, tmp_path: Path) -> None:
    """Nothing outside is packed, nothing is written outside, pipes are left out, links are not followed."""
    (tmp_path / "secret").write_text("s")
    (desk.workspace / "tree/out").symlink_to(tmp_path)
    os.mkfifo(desk.workspace / "tree/pipe")
    said = desk.call("archive_create", path="o.tar", paths=["tree"])
    assert [entry["name"] for entry in said["left_out"]] == ["tree/pipe"]
    with tarfile.open(desk.workspace / "o.tar") as packed:
        assert packed.getmember("tree/out").linkname == str(tmp_path)
        assert not any("secret" in name for name in packed.getnames())
    for paths in (["../secret"], ["tree/out/secret"], ["/etc/passwd"]):
        assert "outside" in refused(desk, "archive_create", path="x.zip", paths=paths)
    assert "outside" in refused(desk, "archive_create", path="../x.zip", paths=["tree"])
    assert "format" in refused(desk, "archive_create", path="x.rar", paths=["tree"])
    assert "does not exist" in refused(desk, "archive_create", path="x.zip", paths=["nope"])
    assert (
        "1 MB" in refused(desk, "archive_create", path="x.zip", paths=["big"], max_mb=1)
        if big(desk)
        else True
    )
    assert not list(desk.workspace.glob("x.*"))
    assert not list(desk.workspace.glob(".*"))


def big(desk: Desk) -> bool:
    """Make a file of two megabytes."""
    (desk.workspace / "big").write_bytes(bytes(2 << 20))
    return True


def test_an_archive_may_lie_in_what_it_packs(desk: Desk) -> None:
    """Packing the workspace into a file of the workspace does not pack the archive itself."""
    desk.call("archive_create", path="all.tar", paths=["."])
    desk.call("archive_create", path="all.tar", paths=["."], overwrite=True, exclude=["all.tar"])
    assert "all.tar" not in {entry["name"] for entry in desk.call("archive_list", path="all.tar")["entries"]}


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_zstandard_is_read_or_named(desk: Desk) -> None:
    """Where Python knows Zstandard it is read; where not, the message says what to use."""
    subprocess.run(["tar", "--zstd", "-cf", "o.tar.zst", "tree"], cwd=desk.workspace, check=True)
    if sys.version_info < (3, 14):
        assert "zstd" in refused(desk, "archive_extract", path="o.tar.zst", destination="out")
    else:
        assert desk.call("archive_extract", path="o.tar.zst", destination="out")["extracted"] == 4


def test_a_name_is_left_out_wherever_it_lies(desk: Desk) -> None:
    """What is excluded by its name alone is excluded at any depth, and what is in it too."""
    top = desk.workspace / "tree"
    for name in (".env", "deep/.env", "deep/node_modules/x/a.js", "deep/keep/a.js"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    said = desk.call(
        "archive_create", path="a.zip", paths=["tree"], exclude=[".env", "node_modules/", "tree/empty"]
    )
    with zipfile.ZipFile(desk.workspace / "a.zip") as archive:
        names = archive.namelist()
    assert "tree/deep/keep/a.js" in names
    assert not [name for name in names if ".env" in name or "node_modules" in name or "empty" in name]
    assert said["files"] == len([name for name in names if not name.endswith("/")])


def test_a_name_that_zip_cannot_have_leaves_the_others(desk: Desk) -> None:
    """A name that is no UTF-8 is left out of a zip archive and reported; a tar archive takes it."""
    place = os.fsencode(desk.workspace / "tree") + b"/b\xff.txt"
    with open(place, "w") as file:
        file.write("x")
    said = desk.call("archive_create", path="a.zip", paths=["tree"])
    assert said["files"] == 4
    assert said["left_out"][0]["why"].startswith("its name is not UTF-8")
    said = desk.call("archive_create", path="a.tar", paths=["tree"])
    assert "left_out" not in said
    str(said["names"]).encode()
    with tarfile.open(desk.workspace / "a.tar") as archive:
        assert b"tree/b\xff.txt" in [os.fsencode(one) for one in archive.getnames()]


def test_what_vanishes_meanwhile_is_left_out(desk: Desk) -> None:
    """A file that is gone when its turn comes is reported and does not end the work; one that was named does."""
    with open(desk.workspace / "a.zip", "w+b") as out:
        work = ArchiveWriter(Roots(desk.workspace), "zip", out, 1 << 20, (0, 0))
        work.take("tree/gone", "tree/gone", is_excluded([]), named=False)
        work.take("tree/run.sh", "tree/run.sh", is_excluded([]))
        with pytest.raises(ToolError, match="does not exist"):
            work.take("tree/gone", "tree/gone", is_excluded([]))
        work.close()
        assert work.report(0)["left_out"][0]["name"] == "tree/gone"
