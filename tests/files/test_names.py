"""Odd, missing and mistaken names."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.filesystem.containment import display_name


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The tools on a small tree."""
    desk = Desk(tmp_path / "w")
    for name in ("src/Parser.py", "src/lexer.py", "README.md"):
        desk.call("writeNewFile", path=name, content="x\n")
    return desk


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("src/parser.py", "'src/Parser.py'"),
        ("README.me", "'README.md'"),
        ("scr/lexer.py", "'src'"),
        ("src/lexr.py", "'src/lexer.py'"),
        ("readme.md/", "'README.md'"),
        ("src/deep/deeper/f", "There is no 'src/deep'"),
        ("src/nothing_like_it", "list_directory"),
    ],
)
def test_a_missing_path_names_what_may_be_meant(desk: Desk, path: str, meant: str) -> None:
    """Every tool that needs a file says which names are like the one it was given."""
    with pytest.raises(ToolError, match="does not exist") as refusal:
        desk.call("readFile", path=path)
    assert meant in str(refusal.value)
    for name, more in (("updateFile", {"old": "x", "new": "y"}), ("removeFile", {}), ("get_file_info", {})):
        with pytest.raises(ToolError, match="does not exist") as refusal:
            desk.call(name, path=path, **more)
        assert meant in str(refusal.value), name
    with pytest.raises(ToolError, match="does not exist"):
        desk.call("list_directory", path=path)


def test_absolute_paths_are_helped_inside_the_workspace_alone(desk: Desk, tmp_path: Path) -> None:
    """A mistaken absolute path gets its suggestion; nothing outside is ever listed."""
    (tmp_path / "secret.txt").write_text("x")
    with pytest.raises(ToolError, match=r"src/lexer\.py"):
        desk.call("readFile", path=f"{desk.workspace}/src/lexer.pi")
    with pytest.raises(ToolError) as refusal:
        desk.call("readFile", path=f"{tmp_path}/secret.tx")
    assert "secret.txt" not in str(refusal.value)


def test_a_link_to_nothing_is_named_as_such(desk: Desk) -> None:
    """A link without its target is no missing file."""
    (desk.workspace / "link").symlink_to("gone")
    with pytest.raises(ToolError, match="link to 'gone'"):
        desk.call("readFile", path="link")


def test_forms_of_one_name_are_told_apart(desk: Desk) -> None:
    """Composed and decomposed letters are two names; the one that is missing leads to the other."""
    whole, apart = unicodedata.normalize("NFC", "é.txt"), unicodedata.normalize("NFD", "é.txt")
    desk.call("writeNewFile", path=apart, content="x")
    with pytest.raises(ToolError, match="Did you mean") as refusal:
        desk.call("readFile", path=whole)
    assert repr(apart) in str(refusal.value)


def test_a_directory_with_odd_names_is_listed_one_line_each(desk: Desk) -> None:
    """A name with a line end, an escape sequence or bytes that are no text cannot pass for other entries."""
    (desk.workspace / "odd").mkdir()
    top = os.fsencode(desk.workspace / "odd")
    for name in (b"a\nb 5", b"\x1b[31mred", b"\xff\xfe", "gpj.\u202etxt".encode(), "schön".encode()):
        with open(top + b"/" + name, "wb"):
            pass
    assert desk.call("list_directory", path="odd").text.split("\n") == [
        r"\x1b[31mred 0",
        r"a\nb 5 0",
        r"gpj.\u202etxt 0",
        "schön 0",
        r"\xff\xfe 0",
    ]
    assert display_name("back\\slash") == "back\\slash"


def test_a_huge_directory_is_paged(desk: Desk) -> None:
    """However many entries are asked for, at most two thousand are shown, and where to read on is said."""
    (desk.workspace / "many").mkdir()
    for number in range(2500):
        (desk.workspace / f"many/{number:04d}").touch()
    said = desk.call("list_directory", path="many", limit=10**9)
    assert said.text.endswith("1999 0\n[500 more; read on with offset=2000]")
    assert said.structured["total"] == 2500
    rest = desk.call("list_directory", path="many", offset=2000)
    assert rest.text.startswith("2000 0\n")
    assert rest.text.endswith("2499 0")
    behind = desk.call("list_directory", path="many", offset=9999)
    assert behind.text == "(nothing from offset 9999 on; there are 2500 entries)"


def test_a_name_changes_its_case(desk: Desk) -> None:
    """A move that changes the case alone is done, and undone."""
    desk.call("moveFile", source_path="README.md", destination_path="readme.md")
    assert sorted(path.name for path in desk.workspace.glob("[Rr]*")) == ["readme.md"]
    desk.call("undoFileChange", path="readme.md")
    assert sorted(path.name for path in desk.workspace.glob("[Rr]*")) == ["README.md"]
