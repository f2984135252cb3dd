"""Servers in the sandbox that their entry declares: what it opens, who must agree to it, and what is said without one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.hostile import ALL, Lair
from tests.mcp.hosting import load

from jaato.errors import ToolError
from jaato.plugins.mcp.config import access_of, warn_unconfined
from jaato.plugins.mcp.directory import ServerTrust
from jaato.plugins.mcp.manager import MCPClientManager
from jaato.protocol.specs import SandboxAccess

WORKSPACE = {"profile": "workspace-write"}


def write(place: Path, entry: dict[str, Any], name: str = "one") -> None:
    """An entry of a file of its own."""
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {name: entry}}))


@pytest.mark.parametrize(
    ("scope", "sandbox", "harm"),
    [
        ("user", None, ALL),
        ("user", WORKSPACE, {"planted"}),
        ("user", {"profile": "read-only"}, set()),
        ("workspace", None, {"planted"}),
        ("workspace", {"profile": "read-only"}, set()),
        ("workspace", {"profile": "full"}, ALL),
    ],
)
def test_a_server_does_what_its_entry_declares(
    tmp_path: Path, scope: str, sandbox: dict[str, Any] | None, harm: set[str]
) -> None:
    """The user's own runs as before where it says nothing; a workspace's then changes the workspace and reaches nothing."""
    with Lair(tmp_path) as lair:
        entry: dict[str, Any] = {"command": "sh", "args": ["-c", f"{lair.line}; exit 1"]}
        entry |= {"sandbox": sandbox} if sandbox else {}
        write(lair.home if scope == "user" else lair.work, entry)
        found = load(lair.work, lair.home).sources["one"]
        environ = {
            **lair.environ,
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        ServerTrust(tmp_path / "state" / "jaato").add(found)
        with (
            MCPClientManager(lair.work, environ=environ) as manager,
            pytest.raises(ToolError, match="exit code 1"),
        ):
            manager.connect("one")
        assert lair.harm == harm


def test_a_workspace_s_sandbox_is_shown_and_a_change_of_it_asks_again(tmp_path: Path) -> None:
    """What is opened is part of what is trusted."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    entry: dict[str, Any] = {
        "command": "npx",
        "args": ["-y", "x"],
        "sandbox": {"domains": ["registry.npmjs.org"]},
    }
    write(work, entry)
    config = load(work, home).sources["one"]
    trusted = ServerTrust(tmp_path / "state")
    shown = dict(ServerTrust(Path()).describe(config))["sandbox"]
    assert shown == "workspace-write: it may change the workspace; it reaches registry.npmjs.org"
    assert not trusted.holds(config)
    trusted.add(config)
    assert trusted.holds(load(work, home).sources["one"])
    for changed in (
        {"domains": ["*"]},
        {"profile": "full"},
        {"domains": ["registry.npmjs.org"], "paths": ["/opt"]},
    ):
        write(work, entry | {"sandbox": changed})
        assert not trusted.holds(load(work, home).sources["one"])


@pytest.mark.parametrize(
    ("sandbox", "said"),
    [
        ("full", 'wrong field "sandbox"'),
        ({"profil": "full"}, "unknown field `profil`"),
        ({"profile": "none"}, "is one of read-only, workspace-write, full"),
        ({"profile": ["full"]}, "is one of read-only"),
        ({"domains": "pypi.org"}, "sandbox.domains"),
        ({"domains": ["https://pypi.org/"]}, "write a host"),
        ({"domains": [1]}, "sandbox.domains[0]"),
        ({"paths": ["out"]}, "absolute path"),
        ({"paths": ["/a/../etc"]}, "absolute path"),
        ({"profile": "read-only", "paths": ["/opt"]}, "with the profile workspace-write only"),
        ({"profile": "full", "domains": ["*"]}, "with the profile workspace-write only"),
    ],
)
def test_what_is_no_sandbox_is_an_error_of_that_entry_alone(tmp_path: Path, sandbox: Any, said: str) -> None:
    """The message says what is wrong; the other servers of the file are there."""
    servers = {"bad": {"command": "sh", "sandbox": sandbox}, "good": {"command": "sh", "sandbox": WORKSPACE}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    found = load(tmp_path / "work", tmp_path)
    assert list(found.sources) == ["good"]
    (problem,) = found.problems
    assert problem.name == "bad"
    assert said in problem.text


def test_a_url_has_no_sandbox(tmp_path: Path) -> None:
    """Nothing is started for it."""
    write(tmp_path, {"url": "https://example.org/mcp", "sandbox": WORKSPACE})
    assert "for a server that is started" in load(tmp_path / "work", tmp_path).problems[0].text


def test_the_user_s_entry_without_a_sandbox_is_told_of_once(tmp_path: Path) -> None:
    """With the remedy; one that declares its sandbox, also `full`, is not."""
    write(tmp_path, {"command": "sh"})
    config = load(tmp_path / "work", tmp_path).sources["one"]
    assert access_of(config, tmp_path) == SandboxAccess("full")
    assert '"sandbox": {"profile": "workspace-write"' in warn_unconfined(config, tmp_path / "state")
    assert warn_unconfined(config, tmp_path / "state") == ""
    write(tmp_path, {"command": "sh", "sandbox": {"profile": "full"}})
    assert warn_unconfined(load(tmp_path / "work", tmp_path).sources["one"], tmp_path / "other") == ""


def test_a_home_directory_is_opened_by_its_name(tmp_path: Path) -> None:
    """`~/` is the user's home, as the environment has it."""
    write(tmp_path, {"command": "sh", "sandbox": {"paths": ["~/notes", os.sep + "opt"]}})
    config = load(tmp_path / "work", tmp_path).sources["one"]
    assert access_of(config, tmp_path).paths == (str(tmp_path / "notes"), "/opt")
