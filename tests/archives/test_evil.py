"""Archives made to do harm: none gets out of its directory, none fills the disk, none is the end of us."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.archives.formats import link_problem, name_problem
from jaato.plugins.archives.plugin import ArchivesPlugin

LINK, HARD, FIFO, DEVICE = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A workspace with a neighbour that must not change."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "outside").mkdir()
    return Desk(ArchivesPlugin, tmp_path / "w")


def tar(desk: Desk, *members: tuple[str, bytes, str | bytes], name: str = "evil.tar") -> None:
    """A tar archive of (name, type, content or link target)."""
    with tarfile.open(desk.workspace / name, "w") as archive:
        for path, kind, content in members:
            info = tarfile.TarInfo(path)
            info.type = kind
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                archive.addfile(info)


def zipped(desk: Desk, *members: tuple[str, bytes], name: str = "evil.zip", mode: int = 0) -> None:
    """A zip archive of (name, content)."""
    with zipfile.ZipFile(desk.workspace / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members:
            info = zipfile.ZipInfo(path)
            info.filename = path
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def extract(desk: Desk, name: str = "evil.tar", **more: Any) -> dict[str, Any]:
    """Extract into `out`."""
    said: dict[str, Any] = desk.call("archive_extract", path=name, destination="out", **more)
    return said


def attempt(desk: Desk, name: str, **more: Any) -> dict[str, Any]:
    """What a tool says of `evil.tar`; a refusal as its problem."""
    try:
        said: dict[str, Any] = desk.call(name, path="evil.tar", **more)
    except ToolError as refusal:
        return {"problem": str(refusal)}
    return said


def unharmed(desk: Desk) -> None:
    """Nothing outside the destination has changed or come."""
    top = desk.workspace.parent
    assert (top / "victim").read_text() == "precious"
    assert sorted(path.name for path in top.iterdir()) == ["outside", "victim", "w"]
    assert list((top / "outside").iterdir()) == []
    assert {path.name for path in desk.workspace.iterdir()} <= {"out", "evil.tar", "evil.zip", "evil.gz"}


ODD = ["../victim", "../../victim", "a/../../victim", "/tmp/jaato-evil", "a/b/../../../victim", "..", ".", "C:\\victim",
       "..\\victim", "a\nb", "\x1b[31m", "x" * 300, "/".join("d" * 100)]  # fmt: skip


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_lead_out_are_left_out(desk: Desk, kind: str) -> None:
    """A member that is absolute, climbs, or has an odd name is reported; the good one beside it is extracted."""
    if kind == "tar":
        tar(desk, *((name, tarfile.REGTYPE, b"evil") for name in ODD), ("good.txt", tarfile.REGTYPE, b"good"))
    else:
        zipped(desk, *((name, b"evil") for name in ODD), ("good.txt", b"good"))
    assert desk.call("archive_list", path=f"evil.{kind}").get("unsafe_members") == len(ODD)
    said = extract(desk, f"evil.{kind}")
    assert said["names"] == ["good.txt"]
    assert said["left_out_count"] == len(ODD)
    unharmed(desk)
    assert not Path("/tmp/jaato-evil").exists()


def test_a_file_is_never_written_through_a_link(desk: Desk) -> None:
    """Links out, chains of links, links to directories and what would be written through them: all stay inside."""
    outside = str(desk.workspace.parent / "outside")
    tar(
        desk,
        ("abs", LINK, outside),
        ("abs/x", tarfile.REGTYPE, b"evil"),
        ("up", LINK, ".."),
        ("up/victim", tarfile.REGTYPE, b"evil"),
        ("dir/", tarfile.DIRTYPE, b""),
        ("dir/here", LINK, "."),
        ("chain", LINK, "dir/here/../../.."),
        ("chain/victim", tarfile.REGTYPE, b"evil"),
        ("sub", LINK, "dir"),
        ("sub/y", tarfile.REGTYPE, b"fine"),
        ("hard", HARD, "../../victim"),
        ("hard2", HARD, "/etc/passwd"),
        ("hard3", HARD, "missing"),
    )
    said = extract(desk)
    assert set(os.listdir(desk.workspace / "out")) <= {"dir", "sub", "abs", "up", "chain"}
    assert {entry["name"] for entry in said["left_out"]} >= {"abs", "up", "chain", "hard", "hard2", "hard3"}
    for path in (desk.workspace / "out").rglob("*"):
        assert os.path.realpath(path).startswith(str(desk.workspace / "out"))
    unharmed(desk)


def test_links_that_are_there_already_are_not_followed(desk: Desk) -> None:
    """A link in the destination that leads out does not carry a member out."""
    out = desk.workspace / "out"
    out.mkdir()
    (out / "d").symlink_to(desk.workspace.parent / "outside")
    (out / "f").symlink_to(desk.workspace.parent / "victim")
    tar(desk, ("d/x", tarfile.REGTYPE, b"evil"), ("f", tarfile.REGTYPE, b"evil"))
    assert extract(desk, overwrite=True)["left_out_count"] == 2
    unharmed(desk)


def test_devices_pipes_and_privileges_are_not_made(desk: Desk) -> None:
    """Devices and pipes are left out; a set-user-ID bit is dropped."""
    with tarfile.open(desk.workspace / "evil.tar", "w") as archive:
        for name, kind in (("fifo", FIFO), ("null", DEVICE), ("block", tarfile.BLKTYPE)):
            info = tarfile.TarInfo(name)
            info.type = kind
            archive.addfile(info)
        info = tarfile.TarInfo("su")
        info.mode, info.size = 0o6777, 2
        archive.addfile(info, io.BytesIO(b"hi"))
    assert extract(desk)["left_out_count"] == 3
    assert os.listdir(desk.workspace / "out") == ["su"]
    assert (desk.workspace / "out/su").stat().st_mode & 0o7022 == 0


CONTROL = [".git/hooks/pre-commit", ".jaato/permissions.json", ".mcp.json", ".bashrc", "a/.vscode/tasks.json"]


@pytest.mark.parametrize("destination", [".", "out"])
def test_control_paths_are_not_extracted(desk: Desk, destination: str) -> None:
    """A file that decides what runs later does not come out of an archive, wherever that is extracted."""
    tar(desk, *((name, tarfile.REGTYPE, b"evil") for name in CONTROL), ("ok", LINK, CONTROL[0]))
    said = desk.call("archive_extract", path="evil.tar", destination=destination)
    left_out = {one["name"]: one["why"] for one in said["left_out"]}
    for name in CONTROL:
        assert "runs later" in left_out[name]
        assert not (desk.workspace / destination / name).exists()


def test_a_bomb_stops_early(desk: Desk) -> None:
    """Zeros that unpack to gigabytes stop at the ratio or the bound; what is there is said."""
    with gzip.open(desk.workspace / "evil.gz", "wb", compresslevel=9) as file:
        for _ in range(150):
            file.write(bytes(1 << 20))
    said = extract(desk, "evil.gz")
    assert "times its size" in said["incomplete"]
    assert os.listdir(desk.workspace / "out") == []
    zipped(desk, *((f"z{n}", bytes(25 << 20)) for n in range(6)))
    assert "times its size" in extract(desk, "evil.zip")["incomplete"]
    tar(desk, ("a", tarfile.REGTYPE, bytes(3 << 20)), ("b", tarfile.REGTYPE, b"x"))
    said = extract(desk, max_mb=1)
    assert "1 MB" in said["incomplete"]
    assert said["extracted"] == 0
    unharmed(desk)


def test_a_member_that_lies_about_its_size_is_found_out(desk: Desk) -> None:
    """A zip whose directory says less than there is does not get past the bounds."""
    zipped(desk, ("big", bytes(5 << 20)))
    data = bytearray((desk.workspace / "evil.zip").read_bytes())
    central = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, central + 24, 10)
    (desk.workspace / "evil.zip").write_bytes(data)
    said = extract(desk, "evil.zip")
    assert said.get("incomplete") or said["bytes"] <= 10


def test_many_members_stop(desk: Desk) -> None:
    """An archive of a hundred thousand empty members ends at a bound."""
    head = tarfile.TarInfo("x").tobuf()
    (desk.workspace / "evil.gz").write_bytes(gzip.compress(head * 100_000))
    assert "50000 members" in desk.call("archive_list", path="evil.gz")["problem"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"\x1f\x8b" + bytes(100),
        lambda: gzip.compress(b"x" * 100_000)[:50],
        lambda: b"PK\x03\x04" + bytes(100),
        lambda: b"7z\xbc\xaf\x27\x1c" + bytes(100),
        lambda: b"Rar!\x1a\x07\x00" + bytes(100),
        lambda: bytes(10_240),
        lambda: b"just text\n" * 100,
    ],
)
def test_what_is_no_archive_is_refused_with_a_reason(desk: Desk, make: Callable[[], bytes]) -> None:
    """Damaged, foreign and empty files give a message, never a traceback."""
    (desk.workspace / "evil.tar").write_bytes(make())
    for said in (attempt(desk, "archive_list"), attempt(desk, "archive_extract", destination="out")):
        assert said.get("problem") or said.get("incomplete") or not said.get("members", 0)


def test_headers_without_end_and_backward_are_refused(desk: Desk) -> None:
    """A header of gigabytes, headers of headers, and a size below zero: no memory, no loop."""
    huge = tarfile.TarInfo("x")
    huge.type, huge.size = tarfile.XHDTYPE, 8 << 30
    nested = tarfile.TarInfo("x")
    nested.type, nested.size = tarfile.XHDTYPE, 0
    back = bytearray(tarfile.TarInfo("x").tobuf())
    back[124:136] = b"\xff" * 11 + b"\x00"
    back[148:156] = b"        "
    back[148:156] = b"%06o\0 " % sum(back)
    for data in (huge.tobuf(tarfile.GNU_FORMAT), nested.tobuf() * 5_000, bytes(back) * 2):
        (desk.workspace / "evil.tar").write_bytes(data + bytes(1024))
        said = attempt(desk, "archive_list")
        assert said.get("problem") or said["members"] <= 2


def test_an_encrypted_member_is_named(desk: Desk) -> None:
    """What needs a password is left out, the rest extracted."""
    zipped(desk, ("a", b"secret"), ("b", b"open"))
    data = bytearray((desk.workspace / "evil.zip").read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (desk.workspace / "evil.zip").write_bytes(data)
    said = extract(desk, "evil.zip")
    assert "encrypted" in said["left_out"][0]["why"]
    assert said["names"] == ["b"]


def test_a_destination_outside_is_refused(desk: Desk) -> None:
    """The destination itself stays beneath the roots, and no link to a protected directory is one."""
    tar(desk, ("a", tarfile.REGTYPE, b"x"))
    for destination in ("../outside", "/etc", str(desk.workspace.parent / "outside")):
        with pytest.raises(ToolError, match="outside"):
            desk.call("archive_extract", path="evil.tar", destination=destination)
    (desk.workspace / ".git").mkdir()
    (desk.workspace / "nice").symlink_to(".git")
    with pytest.raises(ToolError, match="protected"):
        desk.call("archive_extract", path="evil.tar", destination="nice")


NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "", "c"]), max_size=7).map("/".join)


@given(NAMES, NAMES)
def test_a_link_that_passes_stays_below(name: str, target: str) -> None:
    """Whatever the other links are, a target that is accepted leads nowhere but below the directory."""
    if name_problem(name) is None and link_problem(name, target) is None:
        where = os.path.normpath(f"/top/{os.path.dirname(os.path.normpath(name))}/{target}")
        assert where == "/top" or where.startswith("/top/")
        parts = [part for part in target.split("/") if part not in ("", ".")]
        assert ".." not in parts[parts.count("..") :]


def test_holes_do_not_fill_the_disk(desk: Desk) -> None:
    """A sparse file of gigabytes in an archive of kilobytes stops at the ratio, as other bombs do."""
    with open(desk.workspace / "hole", "wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["tar", "-Scf", "evil.tar", "hole"], cwd=desk.workspace, check=True)
    (desk.workspace / "hole").unlink()
    said = extract(desk)
    assert "times its size" in said["incomplete"]
    assert not (desk.workspace / "out").exists()
    unharmed(desk)
