"""No path leaves the workspace: not by its names, not by links, not by links made meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.filesystem import safe_open
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.errors import FileMissing, PathRefused


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """A workspace `w` beside a file and a directory that nobody granted."""
    (tmp_path / "w" / "a").mkdir(parents=True)
    (tmp_path / "w" / "a" / "f").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "w2").mkdir()
    (tmp_path / "w2" / "f").write_text("outside")
    return tmp_path


@pytest.fixture(params=["openat2", "walk"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once as the kernel resolves, once as the walk does where there is no openat2."""
    if request.param == "walk":
        monkeypatch.setattr(safe_open, "kernel_open", lambda: None)
    else:
        assert safe_open.kernel_open() is not None
    return str(request.param)


@pytest.mark.usefixtures("kernel")
def test_every_spelling_of_an_inside_path_is_read(yard: Path) -> None:
    """Relative, absolute, dotted and linked paths that stay inside lead to the file."""
    w = yard / "w"
    (w / "link").symlink_to("a/f")
    (w / "absolute").symlink_to(w / "a" / "f")
    (w / "around").symlink_to("../w/a")
    roots = Roots(w)
    for path in ("a/f", "./a//f", str(w / "a/f"), "a/../a/f", "link", "absolute", "around/f", "../w/a/f"):
        with roots.open_file(path) as file:
            assert file.read() == b"inside", path


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "/",
        "../w2/f",
        "out",
        "outdir/f",
        "chain",
        "loop",
        "root/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/secret",
        "~/.ssh/id_rsa",
        "~",
    ],
)
def test_what_leaves_is_refused(yard: Path, path: str) -> None:
    """`..`, absolute paths, look-alike prefixes, links out, magic links: refused, the path named."""
    w = yard / "w"
    (w / "out").symlink_to("../secret")
    (w / "outdir").symlink_to(yard / "w2")
    (w / "chain").symlink_to("a/hop")
    (w / "a" / "hop").symlink_to("../../secret")
    (w / "loop").symlink_to("loop")
    (w / "root").symlink_to("/proc/self/root")
    roots = Roots(w)
    with pytest.raises(ToolError) as refusal:
        roots.open_file(path)
    assert path in str(refusal.value)
    with pytest.raises(ToolError):
        list(roots.scan(path))


def test_proc_links_are_refused_even_below_a_granted_root(tmp_path: Path) -> None:
    """A granted `/` does not let `/proc/self/root` or a descriptor's link through."""
    roots = Roots(tmp_path, [Path("/")])
    for path in ("/proc/self/root/etc/hostname", "/proc/self/cwd", "/proc/self/fd/0"):
        with pytest.raises(ToolError):
            roots.open_file(path)


@pytest.mark.parametrize(
    "path", ["", "  ", "a\0b", "\ud800", "x" * 5000, "n" * 300, "a/f/", "a/f/x", "a", "gone", "gone/x"]
)
def test_what_is_no_readable_path_says_so(yard: Path, path: str) -> None:
    """An empty, unencodable, overlong, missing path or one that is no file is a clear error."""
    with pytest.raises(ToolError) as refusal:
        Roots(yard / "w").open_file(path)
    assert len(str(refusal.value)) > 20
    assert "Errno" not in str(refusal.value)


@pytest.mark.usefixtures("kernel")
def test_pipes_sockets_and_devices_are_refused_unopened(yard: Path) -> None:
    """A FIFO, a socket and a device are named as such; opening them neither blocks nor wakes anybody."""
    w = yard / "w"
    os.mkfifo(w / "pipe")
    os.mknod(w / "null", 0o20666, os.makedev(1, 3))
    roots = Roots(w)
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(w)
        listener.bind("socket")
        os.chdir(here)
        for path, kind in (("pipe", "named pipe"), ("socket", "socket"), ("null", "character device")):
            with pytest.raises(PathRefused, match=kind):
                roots.open_file(path)


def test_granted_roots_are_reached_and_nothing_beside_them(yard: Path) -> None:
    """A granted directory is readable by absolute path and by links into it; its neighbour is not."""
    (yard / "w" / "to").symlink_to(yard / "w2")
    roots = Roots(yard / "w", [yard / "w2"])
    for path in (str(yard / "w2/f"), "to/f", "../w2/f"):
        with roots.open_file(path) as file:
            assert file.read() == b"outside"
    with pytest.raises(PathRefused):
        roots.open_file("../secret")
    assert roots.relative(str(yard / "w2/f"))[0] == yard / "w2"


def test_a_root_given_by_a_link_is_understood_in_both_spellings(yard: Path) -> None:
    """A workspace opened through a link takes absolute paths through the link and the real one."""
    (yard / "alias").symlink_to("w")
    roots = Roots(yard / "alias")
    for path in (yard / "alias/a/f", yard / "w/a/f"):
        with roots.open_file(str(path)) as file:
            assert file.read() == b"inside"


def test_a_swapper_gains_nothing(tmp_path: Path) -> None:
    """While a thread swaps directory and file for links outside, no tool reads or changes anything there."""
    outside = tmp_path / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "f").write_text("SECRET")
    w = tmp_path / "w"
    desk = Desk(w)
    (w / "d").mkdir()
    (w / "d" / "f").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        (w / "evil").symlink_to(outside / "d")
        (w / "evilfile").symlink_to(outside / "d" / "f")
        while not stop.is_set():
            for one, other in ((w / "d", w / "evil"), (w / "d" / "f", w / "evilfile")):
                with contextlib.suppress(OSError):
                    os.rename(one, w / "aside")
                    os.rename(other, one)
                with contextlib.suppress(OSError):
                    os.rename(one, other)
                    os.rename(w / "aside", one)

    thread = threading.Thread(target=swap)
    thread.start()
    done = 0
    try:
        for turn in range(80):
            for name, arguments in (
                ("readFile", {"path": "d/f"}),
                ("updateFile", {"path": "d/f", "new_content": f"mine {turn}"}),
                ("writeNewFile", {"path": f"d/new{turn}", "content": "x"}),
                ("copyFile", {"source_path": "d/f", "destination_path": f"copy{turn}"}),
                ("removeFile", {"path": f"d/new{turn}"}),
                ("list_directory", {"path": "d"}),
            ):
                with contextlib.suppress(ToolError, FileNotFoundError):
                    said = desk.call(name, **arguments)
                    done += 1
                    assert "SECRET" not in str(said)
    finally:
        stop.set()
        thread.join()
    assert done > 0
    assert [path.name for path in outside.rglob("*")] == ["d", "f"]
    assert (outside / "d" / "f").read_text() == "SECRET"
    for copy in w.glob("copy*"):
        assert "SECRET" not in copy.read_text()
    assert not any(b"SECRET" in path.read_bytes() for path in (w / ".jaato/backups/objects").iterdir())


def test_missing_directories_do_not_lead_outside(yard: Path) -> None:
    """Creating the directories above a new file follows no link out."""
    (yard / "w" / "out").symlink_to(yard / "w2")
    desk = Desk(yard / "w")
    for path in ("out/x/y", "../w2/x/y", "a/../../w2/x"):
        with pytest.raises(ToolError):
            desk.call("writeNewFile", path=path, content="x")
    assert sorted(path.name for path in (yard / "w2").iterdir()) == ["f"]


def test_a_missing_file_is_told_from_a_refused_one(yard: Path) -> None:
    """What does not exist and what is not allowed are different errors."""
    roots = Roots(yard / "w")
    with pytest.raises(FileMissing):
        roots.open_file("a/none")
    with pytest.raises(PathRefused):
        roots.open_file("../none")
