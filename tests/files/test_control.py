"""Control paths are known by name, present or absent, in any spelling, and behind links."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.files.desk import Desk

from jaato.errors import ToolError
from jaato.tools.filesystem.containment import Roots


@pytest.mark.spec("C4", "Permissions")
@pytest.mark.parametrize(
    "path",
    [
        ".jaato",
        ".jaato/permissions.json",
        ".jaato/x/y",
        ".mcp.json",
        ".git",
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/Hooks/x",
        ".Mcp.JSON",
        "sub/.git/config",
        "sub/.jaato/permissions.json",
        ".git /config",
        ".git./config",
        "git~1/config",
        ".g\u200cit/config",
        ".git::$INDEX_ALLOCATION/config",
        "./.git//config",
        "a/../.git/config",
        ".bashrc",
        "home/.zshenv",
        ".config/fish/config.fish",
        ".config",
        ".envrc",
        "bare.git/hooks/post-receive",
        "bare.git/config",
        "x/HEAD",
        ".vscode/tasks.json",
        ".ssh/authorized_keys",
    ],
)
def test_a_control_path_is_known_by_name_though_absent(tmp_path: Path, path: str) -> None:
    """Every control path is one before it exists, whatever its case, place or disguise."""
    (tmp_path / "a").mkdir()
    roots = Roots(tmp_path)
    assert roots.is_control(path)
    assert roots.is_control(str(tmp_path / path))


@pytest.mark.parametrize(
    "path", ["src/git.py", "jaato/x", "config", "hooks/use.ts", "mcp.json", ".gitignore", ".", "x/.config.py"]
)
def test_ordinary_files_are_not_control_paths(tmp_path: Path, path: str) -> None:
    """Names that only resemble a control path are ordinary."""
    assert not Roots(tmp_path).is_control(path)


@pytest.mark.spec("C4", "Permissions")
def test_links_to_control_paths_are_control_paths(tmp_path: Path) -> None:
    """A symbolic or a hard link to a control file is one too, and so is a link to its directory."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "config").write_text("[core]")
    (tmp_path / "soft").symlink_to(".git/config")
    (tmp_path / "dir").symlink_to(".git/hooks")
    os.link(tmp_path / ".git" / "config", tmp_path / "hard")
    (tmp_path / "plain").write_text("x")
    os.link(tmp_path / "plain", tmp_path / "plain2")
    roots = Roots(tmp_path)
    assert roots.is_control("soft")
    assert roots.is_control("dir/pre-commit")
    assert roots.is_control("hard")
    assert not roots.is_control("plain2")


def test_the_config_of_a_bare_repository_of_any_name_is_one(tmp_path: Path) -> None:
    """A directory that git takes for a repository has a config and hooks that are protected."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "odd"], check=True, capture_output=True)
    roots = Roots(tmp_path)
    assert roots.is_control("odd/config")
    assert roots.is_control("odd/hooks/update")
    assert not roots.is_control("odd/description")


def test_a_granted_git_directory_is_protected(tmp_path: Path) -> None:
    """A granted root that is itself a control directory is one all through."""
    (tmp_path / "w").mkdir()
    (tmp_path / "r" / ".git" / "hooks").mkdir(parents=True)
    roots = Roots(tmp_path / "w", [tmp_path / "r" / ".git"])
    assert roots.is_control(str(tmp_path / "r" / ".git" / "hooks" / "x"))


@pytest.mark.spec("C4", "Permissions")
def test_no_tool_reaches_a_control_path_by_a_link(tmp_path: Path) -> None:
    """What permission was asked for is what is written: a link that leads to a control path is refused."""
    desk = Desk(tmp_path)
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "config").write_text("[core]\n")
    (tmp_path / "soft").symlink_to(".git/config")
    (tmp_path / "dir").symlink_to(".git/hooks")
    (tmp_path / "evil").write_text("#!/bin/sh")
    for name, arguments in (
        ("updateFile", {"path": "soft", "new_content": "evil"}),
        ("writeNewFile", {"path": "dir/pre-commit", "content": "evil"}),
        ("moveFile", {"source_path": "evil", "destination_path": "dir/pre-commit"}),
        ("copyFile", {"source_path": "evil", "destination_path": "dir/pre-commit"}),
        ("createDirectory", {"path": "dir/x"}),
        ("multiFileEdit", {"edits": [{"path": "dir/x", "new_content": "evil"}]}),
    ):
        with pytest.raises(ToolError, match="protected"):
            desk.call(name, **arguments)
    assert list((tmp_path / ".git/hooks").iterdir()) == []
    assert (tmp_path / ".git/config").read_text() == "[core]\n"


def test_find_and_replace_passes_control_paths_over(tmp_path: Path) -> None:
    """Replacing in a whole tree never touches a control path."""
    desk = Desk(tmp_path)
    for name in (".mcp.json", ".bashrc", "x.txt", "sub/.mcp.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old")
    said = desk.call("findAndReplace", pattern="old", replacement="new", dry_run=False)
    assert [entry["path"] for entry in said["files"]] == ["x.txt"]
    assert (tmp_path / ".mcp.json").read_text() == "old"
