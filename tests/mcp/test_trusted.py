"""Trust by content: which servers of a workspace may start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.hosting import load

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.directory import ServerTrust, find_referenced_programs


def server(tmp_path: Path, entry: dict[str, Any], *, scope: str = "work", name: str = "it") -> ServerConfig:
    """A configured server."""
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / scope / ".mcp.json").write_text(json.dumps({"mcpServers": {name: entry}}))
    return load(tmp_path / "work", tmp_path / "home").sources[name]


def test_one_byte_asks_again(tmp_path: Path) -> None:
    """A workspace's server is trusted as it is; any change of its entry and it is not."""
    trusted = ServerTrust(tmp_path / "state")
    config = server(tmp_path, {"command": "x", "args": ["1"]})
    assert not trusted.holds(config)
    trusted.add(config)
    assert trusted.holds(config)
    for changed in (
        {"command": "x", "args": ["2"]},
        {"command": "x"},
        {"command": "x", "args": ["1"], "env": {"A": "b"}},
    ):
        assert not trusted.holds(server(tmp_path, changed))
    assert not trusted.holds(server(tmp_path, {"command": "x", "args": ["1"]}, name="other"))
    assert trusted.holds(server(tmp_path, {"args": ["1"], "command": "x"}))
    trusted.remove(config)
    assert not trusted.holds(config)


def test_the_users_own_needs_none(tmp_path: Path) -> None:
    """What the user's own file names may start."""
    assert ServerTrust(tmp_path / "state").holds(server(tmp_path, {"command": "x"}, scope="home"))


def test_another_workspace(tmp_path: Path) -> None:
    """Trust in one workspace says nothing of an equal entry in another."""
    trusted = ServerTrust(tmp_path / "state")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    trusted.add(server(tmp_path / "a", {"command": "x"}))
    assert not trusted.holds(server(tmp_path / "b", {"command": "x"}))


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "./run"},
        {"command": "python3", "args": ["server.py"]},
        {"command": "node", "args": ["--require=./server.py"]},
        {"command": "bash", "args": ["-c", "exec ./server.py --x"]},
        {"command": "python3", "args": ["${PWD}/server.py"]},
        {"command": "python3", "args": ["${SERVER:-./server.py}"]},
        {"command": "python3", "args": ["../server.py"], "cwd": "deep"},
        {"command": "python3", "args": ["link.py"]},
        {"command": "python3", "args": ["-m", "server"]},
        {"command": "uv", "args": ["run", "--", "python3", "-m", "server"]},
        {"command": "uvicorn", "args": ["server:app"]},
        {"command": "python3", "args": ["server.py"], "cwd": "${PWD}"},
        {"command": "python3", "args": ["server.py"], "cwd": "${NOWHERE:-x}/deep/.."},
    ],
)
def test_the_program_counts_too(tmp_path: Path, entry: dict[str, Any]) -> None:
    """A program in the workspace that is exchanged after it was trusted is not started."""
    config = server(tmp_path, entry)
    work = tmp_path / "work"
    (work / "deep").mkdir()
    for name in ("run", "server.py"):
        (work / name).write_text("print(1)")
    (work / "link.py").symlink_to("server.py")
    trusted = ServerTrust(tmp_path / "state")
    trusted.add(config)
    assert trusted.holds(config)
    for name in ("run", "server.py"):
        (work / name).write_text("print(2)")
    assert not trusted.holds(config)
    trusted.add(config)
    for name in ("run", "server.py"):
        (work / name).unlink()
    assert not trusted.holds(config)


@pytest.mark.parametrize(
    ("args", "file"),
    [
        (["python3", "-m", "pack"], "pack/__main__.py"),
        (["python3", "-m", "pack.serve"], "pack/serve.py"),
        (["python3", "pack"], "pack/__main__.py"),
        (["node", "."], "index.js"),
        (["node", "./pack"], "pack/index.mjs"),
        (["npm", "run", "mcp"], "package.json"),
        (["yarn", "mcp"], "package.json"),
        (["make", "-s", "mcp"], "Makefile"),
        (["docker", "compose", "run", "mcp"], "compose.yaml"),
    ],
)
def test_a_program_that_is_named_by_its_module_counts_too(tmp_path: Path, args: list[str], file: str) -> None:
    """What an interpreter, or a runner of the project's recipes, takes for the name in the command line is looked at."""
    config = server(tmp_path, {"command": args[0], "args": args[1:]})
    trusted, path = ServerTrust(tmp_path / "state"), tmp_path / "work" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("as it was")
    trusted.add(config)
    assert trusted.holds(config)
    path.write_text("as it is now")
    assert not trusted.holds(config)
    path.unlink()
    trusted.add(config)
    path.write_text("made later")
    assert not trusted.holds(config)


def test_data_does_not_count(tmp_path: Path) -> None:
    """Files that are not run, directories and programs elsewhere are no part of what is trusted."""
    config = server(tmp_path, {"command": "/bin/sh", "args": [".", "notes.txt", "/etc/passwd", ""]})
    (tmp_path / "work" / "notes.txt").write_text("1")
    assert find_referenced_programs(config) == []


def test_a_program_nobody_can_read(tmp_path: Path) -> None:
    """What cannot be looked at cannot be trusted: a pipe, a giant."""
    config = server(tmp_path, {"command": "./run"})
    os.mkfifo(tmp_path / "work" / "run")
    trusted = ServerTrust(tmp_path / "state")
    assert not trusted.holds(config)
    with pytest.raises(ConfigError, match="regular file"):
        trusted.add(config)
    (tmp_path / "work" / "run").unlink()
    with (tmp_path / "work" / "run").open("wb") as file:
        file.truncate(17_000_000)
    with pytest.raises(ConfigError, match="bytes"):
        trusted.add(config)


def test_trust_is_bound_to_what_was_shown(tmp_path: Path) -> None:
    """An entry exchanged between the look and the answer is not trusted."""
    config = server(tmp_path, {"command": "./run"})
    (tmp_path / "work" / "run").write_text("1")
    trusted = ServerTrust(tmp_path / "state")
    seen = trusted.content(config)
    (tmp_path / "work" / "run").write_text("2")
    with pytest.raises(ConfigError, match="changed meanwhile"):
        trusted.add(config, seen=seen)
    assert not trusted.holds(config)


def test_what_is_shown(tmp_path: Path) -> None:
    """A person sees the whole command, what it takes from the environment, and what could be overlooked."""
    config = server(
        tmp_path,
        {"command": "./run", "args": ["a b", "\u0440ython"], "env": {"NODE_OPTIONS": "x", "T": "${TOKEN}"}},
    )
    (tmp_path / "work" / "run").write_text("1")
    text = "\n".join(" ".join(row) for row in ServerTrust(Path()).describe(config))
    for part in (
        "runs ./run 'a b'",
        "T=${TOKEN}",
        "environment: TOKEN",
        "U+0440",
        "NODE_OPTIONS decides",
        "sha256:",
    ):
        assert part in text
    remote = ServerTrust(Path()).describe(
        server(tmp_path, {"url": "http://h.example/", "headers": {"A": "${B}"}})
    )
    assert ("sends", "A: ${B}") in remote
    assert any("plain http" in text for _, text in remote)


def test_a_damaged_trust_file(tmp_path: Path) -> None:
    """Damage trusts nothing and says so."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        ServerTrust(tmp_path / "state").holds(server(tmp_path, {"command": "x"}))
