"""`jaato mcp add` and `remove`: what is refused, what is written, and what stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.mcp.player import Machine


@pytest.fixture
def desk(tmp_path: Path, player: Path) -> Machine:
    """One user's machine."""
    return Machine(tmp_path, player)


@pytest.mark.parametrize(
    "words",
    [
        ["add", "x"],
        ["add", "x", "--"],
        ["add", "x", "--url", "https://h/", "--", "y"],
        ["add", "x", "--url", "ftp://h/"],
        ["add", "x", "--url", "https://u:p@h/"],
        ["add", "x", "--url", "https://h/", "--env", "A=b"],
        ["add", "x", "--url", "https://h/", "--header", "nothing"],
        ["add", "x", "--header", "A: b", "--", "y"],
        ["add", "x", "--env", "=b", "--", "y"],
        ["add", " ", "--", "y"],
        ["add", "x\u202e", "--", "y"],
        ["add", "x", "--", "y\u200b"],
        ["tools", "ftp://h/"],
        ["call", "http://", "x"],
        ["call"],
        [],
    ],
)
def test_wrong_usage(desk: Machine, words: list[str]) -> None:
    """What makes no sense is refused with 2, and changes nothing."""
    made = desk.run("mcp", *words)
    assert made.code == 2, made.err
    assert made.err
    assert not (desk.home / ".mcp.json").exists()


def test_what_follows_the_dashes_is_left_alone(desk: Machine) -> None:
    """Flags, dashes and odd words of the server's own command line arrive as they are."""
    words = ["prog", "--json", "-x", "--", "--scope", "user", "--help", "a b", "", "${HOME}"]
    assert desk.run("mcp", "add", "x", "--cwd", "sub", "--", *words).code == 0
    entry = json.loads((desk.home / ".mcp.json").read_text())["mcpServers"]["x"]
    assert entry == {"type": "stdio", "command": "prog", "args": words[1:], "cwd": "sub"}


def test_editing_keeps_the_rest(desk: Machine) -> None:
    """What jaato does not know stays in the file, with its order and mode; what cannot be kept is not touched."""
    path = desk.home / ".mcp.json"
    before = {
        "$schema": "x",
        "mcpServers": {"a": {"command": "x", "alwaysAllow": ["y"]}},
        "inputs": [{"é": 1}],
    }
    path.write_text(json.dumps(before))
    path.chmod(0o640)
    made = desk.run("mcp", "add", "b", "--env", "API_KEY=sk-123", "--", "y")
    assert "${API_KEY}" in made.err
    after = json.loads(path.read_text())
    assert list(after) == ["$schema", "mcpServers", "inputs"]
    assert after["mcpServers"].pop("b")["env"] == {"API_KEY": "sk-123"}
    assert after == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert "--replace" in desk.run("mcp", "add", "b", "--", "z").err
    assert desk.run("mcp", "add", "b", "--replace", "--", "z").code == 0
    for text in ("{", '{"mcpServers": {}, "mcpServers": {}}', '{"mcpServers": []}'):
        path.write_text(text)
        assert desk.run("mcp", "add", "c", "--", "z").code == 2
        assert path.read_text() == text


def test_a_linked_file(desk: Machine) -> None:
    """A user's file that is a link to where it is really kept stays one."""
    kept = desk.root / "dotfiles.json"
    kept.write_text("{}")
    (desk.home / ".mcp.json").symlink_to(kept)
    assert desk.run("mcp", "add", "b", "--", "z").code == 0
    assert (desk.home / ".mcp.json").is_symlink()
    assert "b" in kept.read_text()
    (desk.work / ".mcp.json").symlink_to(kept)
    assert desk.run("mcp", "add", "c", "--scope", "workspace", "--", "z").code == 2
    assert "c" not in json.loads(kept.read_text())["mcpServers"]
