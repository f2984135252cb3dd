"""Each file tool on a real directory."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.files.desk import Desk

from jaato.errors import PluginError, ToolError
from jaato.protocol.codec import encode
from jaato.tools.call import Output


@pytest.mark.spec("C1", "Tool names")
@pytest.mark.spec("S0", "Core Tool Registry")
def test_the_names_modes_and_aliases_are_the_documented_ones(desk: Desk) -> None:
    """Canonical names in order, one core tool, the documented aliases, reading apart from writing."""
    names = [
        "apply_patch",
        "readFile",
        "writeNewFile",
        "updateFile",
        "removeFile",
        "moveFile",
        "copyFile",
        "createDirectory",
        "list_directory",
        "get_file_info",
        "multiFileEdit",
        "findAndReplace",
        "undoFileChange",
        "restoreFile",
        "listBackups",
    ]
    assert list(desk.tools) == names
    assert [name for name in names if desk.tools[name].spec.discoverability == "core"] == ["readFile"]
    aliases = {alias: name for name in names for alias in desk.tools[name].aliases}
    assert aliases == {"writeFile": "writeNewFile", "deleteFile": "removeFile", "renameFile": "moveFile"}
    reading = {name for name in names if desk.tools[name].spec.access == "read"}
    assert reading == {"readFile", "list_directory", "get_file_info", "listBackups"}
    assert {tool.spec.category for tool in desk.tools.values()} == {"filesystem"}
    assert all(len(tool.spec.description.split()) <= 40 for tool in desk.tools.values())


def test_the_core_declaration_is_short(desk: Desk) -> None:
    """readFile costs every request at most 90 tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the tokenizer's own
        import bpe_openai

        count = bpe_openai.get_encoding("o200k_base")
    spec = desk.tools["readFile"].spec
    text = encode(
        {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    ).decode()
    assert len(count.encode(text)) <= 90


@pytest.mark.spec("S3", "Plugin System Architecture")
def test_write_update_remove_and_undo(desk: Desk) -> None:
    """The life of a file: written with its directories, edited, removed, brought back."""
    said = desk.call("writeNewFile", path="a/b/c.txt", content="one\ntwo\n")
    assert said["path"] == "a/b/c.txt"
    assert said["diff"] == "@@ -0,0 +1,2 @@\n+one\n+two"
    desk.call("updateFile", path="a/b/c.txt", old="two", new="2")
    desk.call("removeFile", path="a/b/c.txt")
    assert not (desk.workspace / "a/b/c.txt").exists()
    desk.call("undoFileChange", path="a/b/c.txt")
    assert (desk.workspace / "a/b/c.txt").read_text() == "one\n2\n"


def test_writing_does_not_overwrite(desk: Desk) -> None:
    """A path that exists is refused and points to updateFile; so is a slash at the end."""
    desk.call("writeNewFile", path="f", content="x")
    with pytest.raises(ToolError, match="updateFile"):
        desk.call("writeNewFile", path="f", content="y")
    with pytest.raises(ToolError, match="slash"):
        desk.call("writeNewFile", path="new/", content="y")
    with pytest.raises(ToolError, match="surrogate"):
        desk.plugin.writeNewFile("g", "\ud800", call=None)  # type: ignore[arg-type]
    assert (desk.workspace / "f").read_text() == "x"


def test_modes_owners_and_links_are_kept(desk: Desk) -> None:
    """An update keeps mode, owner and attributes; behind a link the target changes and the link stays."""
    file = desk.workspace / "run.sh"
    file.write_text("echo 1\n")
    file.chmod(0o750)
    os.chown(file, 1234, 4321)
    os.setxattr(file, "user.note", b"kept")
    (desk.workspace / "link").symlink_to("run.sh")
    desk.call("updateFile", path="link", old="1", new="2")
    info = file.stat()
    assert (info.st_mode & 0o7777, info.st_uid, info.st_gid) == (0o750, 1234, 4321)
    assert os.getxattr(file, "user.note") == b"kept"
    assert (desk.workspace / "link").is_symlink()
    assert file.read_text() == "echo 2\n"


def test_a_hard_link_is_replaced_and_said(desk: Desk, tmp_path: Path) -> None:
    """A file with a second name elsewhere is replaced: the other name keeps the old content."""
    (tmp_path / "outside").write_text("old\n")
    os.link(tmp_path / "outside", desk.workspace / "f")
    said = desk.call("updateFile", path="f", old="old", new="new")
    assert (tmp_path / "outside").read_text() == "old\n"
    assert (desk.workspace / "f").read_text() == "new\n"
    assert "2 hard links" in said["notes"][0]


def test_moving(desk: Desk) -> None:
    """Files and directories move with missing parents made; nothing is overwritten unasked."""
    w = desk.workspace
    desk.call("writeNewFile", path="d/f", content="1")
    (w / "link").symlink_to("d/f")
    desk.call("moveFile", source_path="d", destination_path="x/y/d")
    assert (w / "x/y/d/f").read_text() == "1"
    desk.call("moveFile", source_path="link", destination_path="link2")
    assert (w / "link2").is_symlink()
    desk.call("writeNewFile", path="g", content="2")
    for destination, says in (("x/y/d/f", "overwrite"), ("x", "x/g"), ("g", "same file"), ("h/", "slash")):
        with pytest.raises(ToolError, match=says):
            desk.call("moveFile", source_path="g", destination_path=destination)
    with pytest.raises(ToolError, match="into itself"):
        desk.call("moveFile", source_path="x", destination_path="x/y/z")
    desk.call("moveFile", source_path="g", destination_path="x/y/d/f", overwrite=True)
    assert (w / "x/y/d/f").read_text() == "2"
    desk.call("undoFileChange", path="x/y/d/f")
    assert (w / "x/y/d/f").read_text() == "1"
    assert (w / "g").read_text() == "2"
    with pytest.raises(ToolError, match="root"):
        desk.call("moveFile", source_path=".", destination_path="q")


def test_moving_to_another_file_system(tmp_path: Path) -> None:
    """Between file systems a file is copied, then removed; mode and content arrive."""
    granted = Path("/dev/shm") / f"jaato-{os.getpid()}"
    granted.mkdir()
    try:
        desk = Desk(tmp_path / "w", {"granted": [str(granted)]})
        desk.call("writeNewFile", path="f", content="x")
        (desk.workspace / "f").chmod(0o600)
        desk.call("moveFile", source_path="f", destination_path=str(granted / "g"))
        assert not (desk.workspace / "f").exists()
        assert (granted / "g").read_text() == "x"
        assert (granted / "g").stat().st_mode & 0o777 == 0o600
        desk.call("updateFile", path=str(granted / "g"), old="x", new="y")
        assert [path.name for path in granted.iterdir()] == ["g"]
        desk.call("removeFile", path=str(granted / "g"))
        assert list(granted.iterdir()) == []
    finally:
        for path in granted.iterdir():
            path.unlink()
        granted.rmdir()


def test_copying(desk: Desk) -> None:
    """A copy has the content and the permissions; an existing file is replaced only when asked."""
    (desk.workspace / "a").write_bytes(b"\0\1" * 3_000_000)
    (desk.workspace / "a").chmod(0o755)
    said = desk.call("copyFile", source_path="a", destination_path="d/b")
    assert said["size_bytes"] == 6_000_000
    assert (desk.workspace / "d/b").read_bytes() == (desk.workspace / "a").read_bytes()
    assert (desk.workspace / "d/b").stat().st_mode & 0o777 == 0o755
    desk.call("writeNewFile", path="c", content="c")
    with pytest.raises(ToolError, match="overwrite"):
        desk.call("copyFile", source_path="c", destination_path="a")
    desk.call("copyFile", source_path="c", destination_path="a", overwrite=True)
    desk.call("undoFileChange", path="a")
    assert (desk.workspace / "a").stat().st_size == 6_000_000


def test_directories(desk: Desk) -> None:
    """Directories are made, listed, described and removed when they are empty."""
    assert desk.call("createDirectory", path="x/y")["created"] == ["x", "x/y"]
    assert desk.call("createDirectory", path="x/y/")["created"] == []
    desk.call("writeNewFile", path="x/f", content="123")
    (desk.workspace / "x/out").symlink_to("/etc")
    os.mkfifo(desk.workspace / "x/pipe")
    listed: Output = desk.call("list_directory", path="x")
    assert listed.text == "f 3\nout (link)\npipe (special)\ny/"
    assert (
        desk.call("list_directory", path="x", limit=1, offset=1).text
        == "out (link)\n[2 more; read on with offset=2]"
    )
    with pytest.raises(ToolError, match="not empty"):
        desk.call("removeFile", path="x")
    desk.call("removeFile", path="x/y")
    assert not (desk.workspace / "x/y").exists()
    desk.call("undoFileChange", path="x/y")
    assert (desk.workspace / "x/y").is_dir()
    with pytest.raises(ToolError, match="not a directory"):
        desk.call("createDirectory", path="x/f/z")


def test_info(desk: Desk) -> None:
    """What a path is: text form, links, where a link leads, protection."""
    (desk.workspace / "f.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    (desk.workspace / "l").symlink_to("f.txt")
    info = desk.call("get_file_info", path="l")
    assert (info["kind"], info["link_to"], info["target"]) == ("link", "f.txt", "file")
    assert (info["encoding"], info["line_ends"], info["mime_type"]) == (
        "utf-8 with BOM",
        "CRLF",
        "text/plain",
    )
    (desk.workspace / ".mcp.json").write_text("{}")
    assert desk.call("get_file_info", path=".mcp.json")["protected"]
    with pytest.raises(ToolError, match="does not exist"):
        desk.call("get_file_info", path="none")


def test_ten_megabytes_are_written_and_edited(desk: Desk) -> None:
    """Large content is no special case, and its diff is short."""
    content = "".join(f"line {number}\n" for number in range(800_000))
    said = desk.call("writeNewFile", path="big", content=content)
    assert len(said["diff"]) < 10_000
    said = desk.call("updateFile", path="big", old="line 400000\n", new="LINE\n")
    assert len(said["diff"]) < 300
    assert (desk.workspace / "big").read_text() == content.replace("line 400000\n", "LINE\n")


@pytest.mark.parametrize("setting", [{"max": 1}, {"max_count": 0}, {"max_bytes": "1"}, 5])
def test_wrong_settings_are_named(tmp_path: Path, setting: Any) -> None:
    """A setting of the backups that is none is refused when the plugin is made."""
    with pytest.raises(PluginError, match="max_count and max_bytes"):
        Desk(tmp_path / "w", {"backups": setting})
