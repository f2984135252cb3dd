"""Servers in the sandbox of their entry: the hosts they reach through the proxy, and the files they change."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.hosting import SERVERS, call, places
from tests.mcp.player import Machine
from tests.network.running import OUTSIDE, web

from jaato.errors import ToolError
from jaato.plugins.mcp.directory import Directory, ServerTrust
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
from jaato.tools.processes.sandbox.sandbox import Sandbox


def server_in(workspace: Path) -> list[str]:
    """The command of the server, copied to where its sandbox has it: a checkout may be in /tmp, which is private there."""
    workspace.mkdir(exist_ok=True)
    return [sys.executable, shutil.copy(str(SERVERS / "reaching.py"), str(workspace))]


def reached(
    path: Path,
    scope: str,
    sandbox: dict[str, Any] | None,
    *asked: str,
    backend: Any = "auto",
    sdk: bool = False,
) -> list[str]:
    """What the server answers to each URL or path; with `sdk` it is one of the official SDK."""
    command, script = server_in(path / "work")
    entry: dict[str, Any] = {"command": command, "args": [script, *(["sdk"] if sdk else [])]}
    if sandbox:
        entry["sandbox"] = sandbox
    at = places(path)
    file = path / ".mcp.json" if scope == "user" else at.workspace / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"it": entry}}))
    rules = Sandbox(at.workspace, environ=at.environ, backend=backend, allow_hosts=[OUTSIDE])
    directory = Directory(at, sandbox=rules)
    ServerTrust(at.state_dir).add(directory.sources["it"])

    async def main() -> list[str]:
        host = SessionServers(directory, lambda _name: None)
        try:
            with anyio.fail_after(60):
                return [
                    (await call(host, "it", "fetch", url=one)).text
                    if "://" in one
                    else (await call(host, "it", "write", path=one)).text
                    for one in asked
                ]
        finally:
            host.leave()
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    return anyio.run(main)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a page."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "page").write_text("hello")
    return folder


@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_a_granted_host_is_reached_and_another_is_refused(tmp_path: Path, site: Path, scope: str) -> None:
    """Through the proxy: the host that the entry names answers, the same machine at another port is 403."""
    with web(site) as port, web(site) as other:
        mine, theirs = f"http://{OUTSIDE}:{port}/page", f"http://{OUTSIDE}:{other}/page"
        said = reached(tmp_path, scope, {"domains": [f"{OUTSIDE}:{port}"]}, mine, theirs)
        assert said[0] == "200 hello"
        assert said[1].startswith("403 ")
        assert f"{OUTSIDE}:{other}" in said[1]


def test_without_a_declaration_a_workspace_s_server_reaches_nobody(tmp_path: Path, site: Path) -> None:
    """It may change the workspace; the user's own reaches everything, as before there was a sandbox."""
    with web(site) as port:
        url = f"http://{OUTSIDE}:{port}/page"
        inside = str(tmp_path / "work" / "file")
        outside = str(tmp_path / "file")
        held = reached(tmp_path, "workspace", None, url, inside, outside)
        assert held == [held[0], "written", "refused: Read-only file system"]
        assert held[0].startswith("no way: ")
        (tmp_path / "work" / ".mcp.json").unlink()
        assert reached(tmp_path, "user", None, url, outside) == ["200 hello", "written"]


def test_declared_directories_are_writable_and_no_others(tmp_path: Path) -> None:
    """Neither what lies beside them, nor control files of the workspace."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "work" / ".vscode").mkdir(parents=True)
    asked = [
        str(tmp_path / name) for name in ("notes/a", "b", "work/c", "work/.vscode/settings.json", ".ssh/d")
    ]
    said = reached(tmp_path, "user", {"paths": ["~/notes"]}, *asked, sdk=True)
    assert said[:3] == ["written", "refused: Read-only file system", "written"]
    assert all(one.startswith("refused: ") for one in said[3:])


def test_a_server_leaves_no_control_file_and_keeps_what_others_may_make(tmp_path: Path) -> None:
    """What it makes itself is moved away; what a file tool has made with permission while it ran stays there."""
    at = places(tmp_path)
    command, script = server_in(at.workspace)
    entry = {"command": command, "args": [script], "sandbox": {"profile": "workspace-write"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"it": entry}}))
    rules = Sandbox(at.workspace, environ=at.environ, quarantine=tmp_path / "removed")
    directory = Directory(at, sandbox=rules)
    made, allowed = at.workspace / ".envrc", at.workspace / ".npmrc"

    async def main() -> None:
        host = SessionServers(directory, lambda _name: None)
        try:
            assert (await call(host, "it", "write", path=str(made))).text == "written"
            with rules.control_guard.change(str(allowed)):
                allowed.write_text("x")
            assert not made.exists(), "it was looked for before the change"
            assert (await call(host, "it", "write", path=str(made))).text == "written"
        finally:
            host.leave()
            await anyio.to_thread.run_sync(SERVER_POOL.close)

    anyio.run(main)
    assert (made.exists(), allowed.read_text()) == (False, "x")
    assert len(list((tmp_path / "removed").rglob(".envrc"))) == 2


@pytest.mark.parametrize("sandbox", [{"profile": "workspace-write"}, {"profile": "read-only"}, None])
def test_with_no_back_end_only_what_needs_none_starts(tmp_path: Path, sandbox: dict[str, str] | None) -> None:
    """The setting `sandbox_backend` counts for servers too: the error says that it is the setting."""
    with pytest.raises(ToolError, match="sandbox_backend is none"):
        reached(tmp_path, "workspace", sandbox, str(tmp_path / "work" / "a"), backend="none")
    (tmp_path / "work" / ".mcp.json").unlink()
    full = {"profile": "full"} if sandbox else None
    assert reached(tmp_path, "user", full, str(tmp_path / "work" / "b"), backend="none") == ["written"]
    assert not (tmp_path / "work" / "a").exists()


def test_commands_obey_the_setting_of_the_user(tmp_path: Path, player: Path) -> None:
    """`jaato mcp tools` starts no declared server where the user wants no sandbox."""
    desk = Machine(tmp_path, player)
    added = desk.run("mcp", "add", "it", "--sandbox-profile", "read-only", "--", *server_in(desk.work))
    assert (added.code, "sandbox: read-only: it changes nothing" in added.out) == (0, True), added.err
    (desk.home / ".config" / "jaato").mkdir(parents=True)
    (desk.home / ".config" / "jaato" / "config.toml").write_text('sandbox_backend = "none"\n')
    refused = desk.run("mcp", "tools", "it")
    assert refused.code == 1
    assert "the setting sandbox_backend is none" in refused.err
    assert "fetch" not in refused.out


def test_the_sandbox_is_shown_and_a_change_of_it_needs_trust_again(tmp_path: Path, player: Path) -> None:
    """`mcp add` shows it, for a workspace with trust in just that; the file with another sandbox starts nothing before
    `mcp trust` has shown the new one."""
    desk = Machine(tmp_path, player)
    (desk.root / "data").mkdir()
    flags = ["--scope", "workspace", "--allow-domain", "pypi.org", "--add-dir", str(desk.root / "data")]
    added = desk.run("mcp", "add", "it", *flags, "--", *server_in(desk.work))
    place = desk.root / "data"
    assert f"sandbox: workspace-write: it may change the workspace, {place}; it reaches pypi.org" in added.out
    assert "fetch" in desk.run("mcp", "tools", "it").out
    file = desk.work / ".mcp.json"
    document = json.loads(file.read_text())
    entry = document["mcpServers"]["it"]
    assert entry["sandbox"] == {"profile": "workspace-write", "domains": ["pypi.org"], "paths": [str(place)]}
    for wider, said in (
        ({**entry["sandbox"], "domains": ["pypi.org", "*"]}, "it reaches pypi.org, *"),
        ({"profile": "full"}, "full: no sandbox"),
    ):
        entry["sandbox"] = wider
        file.write_text(json.dumps(document))
        assert desk.run("mcp", "tools", "it", "--refresh").code == 4
        shown = desk.run("mcp", "trust", "it")
        assert (shown.code, said in shown.out) == (4, True), shown.out
        assert desk.run("mcp", "tools", "it", "--refresh").code == 4
        assert desk.run("mcp", "trust", "it", "--yes").code == 0
        assert desk.run("mcp", "tools", "it", "--refresh").code == 0
