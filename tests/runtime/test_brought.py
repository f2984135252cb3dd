"""The plugins a workspace brings: shown, never run before their bytes were trusted, and only those bytes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import CliEnvironment

from jaato.runtime.plugins import workspace as plugin_tree
from jaato.runtime.plugins.memory_import import import_from_memory
from jaato.runtime.plugins.workspace import (
    MAX_DEPTH,
    MAX_FILES,
    MAX_TREE_BYTES,
    find_workspace_plugins,
    read_workspace_plugins,
)
from jaato.tools.permissions.trust import Trust

TEXT = """
from pathlib import Path
from jaato import Plugin, tool
from .words import WORD
Path({mark!r}).write_text("it ran")
PLUGIN_KIND = "tool"
class Notes(Plugin):
    name = "notes"
    @tool(category="notes", access="read")
    def my_word(self) -> str:
        \"\"\"Give the word. Use it for words.\"\"\"
        return WORD
"""


@pytest.fixture
def desk(tmp_path: Path) -> CliEnvironment:
    """A user in a workspace that brings a plugin, which leaves a mark when it runs."""
    made = CliEnvironment(tmp_path)
    folder = made.work / ".jaato" / "plugins" / "notes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(TEXT.format(mark=str(tmp_path / "mark")))
    (folder / "words.py").write_text('WORD = "hello"\n')
    return made


def notes(desk: CliEnvironment) -> Path:
    """The plugin's directory."""
    return desk.work / ".jaato" / "plugins" / "notes"


def test_it_is_shown_and_not_run(desk: CliEnvironment) -> None:
    """`plugins list`, `tools list` and `doctor` name it, its path and hash; not a byte of it is executed."""
    rows = {row["name"]: row for row in json.loads(desk.run("plugins", "list", "--json").stdout)}
    assert rows["notes"]["standing"] == "untrusted"
    assert rows["notes"]["source"] == str(notes(desk))
    assert rows["notes"]["digest"].startswith("sha256:")
    listed = desk.run("tools", "list")
    assert "my_word" not in listed.stdout
    assert "jaato plugins trust notes" in listed.stderr
    assert "jaato plugins trust notes" in desk.run("doctor").stdout
    done = desk.run("run", *desk.script({"text": "ok"}), "hello")
    assert done.returncode == 0
    assert not (desk.root / "mark").exists()
    assert list(notes(desk).glob("**/*.pyc")) == []


def test_once_trusted_it_runs_and_one_byte_later_it_does_not(desk: CliEnvironment) -> None:
    """Trusting shows the files and the hash and asks; a changed byte is told as such; untrust takes it back."""
    refused = desk.run("plugins", "trust", "notes")
    assert refused.returncode == 2
    assert "words.py" in refused.stdout
    assert "sha256:" in refused.stdout
    assert not (desk.root / "mark").exists()
    assert desk.run("plugins", "trust", "notes", "--yes").returncode == 0
    assert not (desk.root / "mark").exists()
    assert "my_word" in desk.run("tools", "list", "notes").stdout
    assert (desk.root / "mark").read_text() == "it ran"
    (desk.root / "mark").unlink()
    (notes(desk) / "words.py").write_text('WORD = "hellO"\n')
    said = desk.run("tools", "list")
    assert "my_word" not in said.stdout
    assert "has changed since it was trusted" in said.stderr
    (notes(desk) / "words.py").write_text('WORD = "hello"\n')
    assert "my_word" in desk.run("tools", "list", "notes").stdout
    (notes(desk) / "more.txt").write_text("one file more")
    assert "my_word" not in desk.run("tools", "list").stdout
    (notes(desk) / "more.txt").unlink()
    assert desk.run("plugins", "untrust", "notes").returncode == 0
    assert "my_word" not in desk.run("tools", "list").stdout


def test_what_was_hashed_is_what_runs(desk: CliEnvironment, tmp_path: Path) -> None:
    """Files that change between the check and the import change nothing: no file is opened again."""
    trust = Trust(tmp_path / "trust")
    (tree,) = read_workspace_plugins(desk.work)
    trust.add(tree.path, tree.content)
    (one,) = find_workspace_plugins(desk.work, trust)
    assert one.standing == "trusted"
    (notes(desk) / "words.py").write_text('WORD = "evil"\n')
    shutil.rmtree(notes(desk))
    module = import_from_memory(one.tree)
    assert module.WORD == "hello"
    assert module.__name__.startswith("jaato_plugin_notes_")


def test_trust_is_for_one_place(desk: CliEnvironment, tmp_path: Path) -> None:
    """The same bytes in another workspace, or under another name, are strangers."""
    trust = Trust(tmp_path / "trust")
    (tree,) = read_workspace_plugins(desk.work)
    trust.add(tree.path, tree.content)
    shutil.copytree(desk.work, tmp_path / "other")
    (other,) = find_workspace_plugins(tmp_path / "other", trust)
    assert other.standing == "untrusted"


def test_links_special_files_and_too_much_are_refused(tmp_path: Path) -> None:
    """Each is listed with the reason, none can be trusted, and reading them holds nobody up."""
    folder = tmp_path / ".jaato" / "plugins"
    for name in ("linked", "piped", "many", "deep", "bare", "dotted.name", "fine"):
        (folder / name).mkdir(parents=True)
        if name != "bare":
            (folder / name / "__init__.py").write_text("")
    (folder / "linked" / "secret.py").symlink_to("/etc/passwd")
    os.mkfifo(folder / "piped" / "data")
    for number in range(MAX_FILES):
        (folder / "many" / f"f{number}").write_text("")
    (folder / "deep" / "/".join("d" * (MAX_DEPTH + 2))).mkdir(parents=True)
    (folder / "whole").symlink_to(folder / "fine")
    (folder / "big.py").write_bytes(b"#" * (MAX_TREE_BYTES + 1))
    (folder / "notes.txt").write_text("no plugin")
    (folder / "fine" / "__pycache__").mkdir()
    (folder / "fine" / "__pycache__" / "x.pyc").write_bytes(b"never read")
    said = {tree.name: tree.problem for tree in read_workspace_plugins(tmp_path)}
    words = {
        "linked": "symbolic link secret.py",
        "piped": "no regular file",
        "many": f"more than {MAX_FILES} files",
        "deep": "nested deeper",
        "bare": "without __init__.py",
        "dotted.name": "no name a plugin can have",
        "whole": "is a symbolic link",
        "big": "larger than",
    }
    for name, text in words.items():
        assert text in said[name], name
    assert said["fine"] == ""
    assert "notes.txt" not in said


def test_two_of_one_name_are_neither(tmp_path: Path) -> None:
    """`notes.py` beside `notes/`: a person who read the one must not vouch for the other."""
    folder = tmp_path / ".jaato" / "plugins"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "__init__.py").write_text("")
    (folder / "notes.py").write_text("")
    (folder / "other.py").write_text("")
    said = [(tree.name, tree.problem) for tree in read_workspace_plugins(tmp_path)]
    assert said == [
        ("notes", "is there twice, as a file and as a directory"),
        ("notes", "is there twice, as a file and as a directory"),
        ("other", ""),
    ]


def test_what_a_workspace_brings_is_bounded_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many large plugins, or more directories than anybody has, are not read at every start; the reason is told."""
    monkeypatch.setattr(plugin_tree, "MAX_ALL_BYTES", 3_000)
    folder = tmp_path / ".jaato" / "plugins"
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"p{number}.py").write_bytes(b"#" * 1_000)
    trees = read_workspace_plugins(tmp_path)
    assert [bool(tree.problem) for tree in trees] == [False] * 3 + [True] * 3
    assert "together with the others" in trees[-1].problem
    assert sum(tree.size_bytes for tree in trees) <= 3_000
    monkeypatch.setattr(plugin_tree, "MAX_PLUGINS", 2)
    opened: list[str] = []
    read = plugin_tree.tree_at

    def counted(*args: Any) -> Any:
        opened.append(args[1])
        return read(*args)

    monkeypatch.setattr(plugin_tree, "tree_at", counted)
    assert len(read_workspace_plugins(tmp_path)) == 2
    assert len(opened) == 2


def test_directories_count_as_files_do(tmp_path: Path) -> None:
    """A plugin of nothing but directories is refused before all of them are walked."""
    folder = tmp_path / ".jaato" / "plugins" / "halls"
    for number in range(MAX_FILES + 1):
        (folder / f"d{number}").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (tree,) = read_workspace_plugins(tmp_path)
    assert f"more than {MAX_FILES} files" in tree.problem


def test_a_linked_directory_of_plugins_is_none(tmp_path: Path) -> None:
    """Neither `.jaato` nor `.jaato/plugins` may lead elsewhere."""
    (tmp_path / "real" / "plugins").mkdir(parents=True)
    (tmp_path / "real" / "plugins" / "a.py").write_text("")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / ".jaato").symlink_to(tmp_path / "real")
    (tmp_path / "two" / ".jaato").mkdir(parents=True)
    (tmp_path / "two" / ".jaato" / "plugins").symlink_to(tmp_path / "real" / "plugins")
    assert read_workspace_plugins(tmp_path / "one") == []
    assert read_workspace_plugins(tmp_path / "two") == []
    assert read_workspace_plugins(tmp_path / "nowhere") == []


def test_a_plugin_of_yours_and_a_built_in_one_come_first(desk: CliEnvironment) -> None:
    """One of the workspace that has the name of another is left out, and told."""
    own = desk.config / "plugins"
    own.mkdir(parents=True)
    (own / "notes.py").write_text("PLUGIN_KIND = 'other'\n")
    (notes(desk).parent / "cli.py").write_text("PLUGIN_KIND = 'tool'\n")
    for name in ("notes", "cli"):
        assert desk.run("plugins", "trust", name, "--yes").returncode == 0
    said = desk.run("tools", "list")
    assert "notes of this workspace has the name of a plugin of yours" in said.stderr
    assert "cli has a file" in said.stderr
    assert "my_word" not in said.stdout
    assert not (desk.root / "mark").exists()


def test_a_switched_off_plugin_is_not_even_read(desk: CliEnvironment) -> None:
    """`disabled_plugins` keeps a trusted plugin, and a built-in one, out."""
    assert desk.run("plugins", "trust", "notes", "--yes").returncode == 0
    off = {"JAATO_DISABLED_PLUGINS": "notes,clock"}
    said = desk.run("tools", "list", environ=off)
    assert "my_word" not in said.stdout
    assert "date_time" not in said.stdout
    assert not (desk.root / "mark").exists()
    assert desk.run("plugins", "trust", "nobody", "--yes").returncode == 2
