"""Workspaces in unusual places: the sandbox starts, holds what it promises, and leaves no trace."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jaato.protocol.specs import SandboxAccess
from jaato.settings import environment
from jaato.tools.processes.command import Command, CommandLimits, Ended
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Sandbox

WORKSPACE_WRITE = SandboxAccess("workspace-write")
READ_ONLY = SandboxAccess("read-only")


class Ground:
    """A home with a secret, and commands in any workspace."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "id").write_text("secret")
        (home / "work").mkdir()
        self.environ = {"HOME": str(home), "PATH": environment()["PATH"]}
        self.launcher = WardenClient()

    def run(self, workspace: Path, line: str, access: SandboxAccess = WORKSPACE_WRITE) -> Ended:
        """How a command line ended there."""

        async def main() -> Ended:
            sandbox = Sandbox(workspace, environ=self.environ)
            try:
                confinement = await sandbox.confine(access, workspace)
                command = Command(
                    ["/bin/sh", "-c", line],
                    workspace,
                    self.environ,
                    limits=CommandLimits(),
                    timeout_s=30,
                    show=lambda _text: None,
                    confinement=confinement,
                )
                return await command.run(self.launcher)
            finally:
                sandbox.close()

        return anyio.run(main)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A home below the temporary directory."""
    made = Ground(tmp_path / "home")
    yield made
    made.launcher.close()


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    """A directory that does not lie below /tmp."""
    place = Path.home() / f".jaato-test-{os.getpid()}"
    place.mkdir()
    yield place
    shutil.rmtree(place)


NAMES = ["with space", "new\nline", "ünï cödé", "-dash", "'quote\"", "$HOME", "a" * 200, "back\\slash", "*"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_of_any_characters(ground: Ground, name: str) -> None:
    """The workspace's name is no option and no pattern to anything."""
    workspace = ground.home / name
    workspace.mkdir()
    ended = ground.run(workspace, "echo x > made; cat made; touch ../outside; true")
    assert (ended.code, ended.head.splitlines()[0]) == (0, b"x")
    assert (workspace / "made").is_file()
    assert not (ground.home / "outside").exists()


@pytest.mark.parametrize("access", [READ_ONLY, WORKSPACE_WRITE], ids=lambda one: one.profile)
@pytest.mark.parametrize("where", ["home", "above", "tmp", "root", "link"])
def test_a_workspace_around_or_beside_what_is_hidden(
    ground: Ground, where: str, access: SandboxAccess
) -> None:
    """The home itself, a directory above it, /tmp, the root, a link: secrets stay hidden, /run and /dev the sandbox's."""
    link = ground.home / "link"
    link.symlink_to("work")
    workspace = {
        "home": ground.home,
        "above": ground.home.parent,
        "tmp": Path("/tmp"),
        "root": Path("/"),
        "link": link,
    }[where]
    marker = f"jaato-place-{os.getpid()}"
    line = f"cat {ground.home}/.ssh/id; ls /run; echo evil > {ground.home}/.ssh/id; test ! -e /dev/vda; touch {marker}"
    ended = ground.run(workspace, line, access)
    made = workspace / marker
    existed = made.exists()
    made.unlink(missing_ok=True)
    assert b"secret" not in ended.head
    assert (ground.home / ".ssh" / "id").read_text() == "secret"
    assert existed == (access is WORKSPACE_WRITE), ended


def test_nothing_is_left_on_the_host(
    ground: Ground, outside_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mount point, placeholder or temporary directory is left behind."""
    workspace = outside_tmp / "work"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").touch()
    before = sorted(str(path) for path in outside_tmp.rglob("*"))
    temporary = ground.home / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for access in (READ_ONLY, WORKSPACE_WRITE):
        assert ground.run(workspace, "true", access).code == 0
    assert sorted(str(path) for path in outside_tmp.rglob("*")) == before
    assert not list(temporary.iterdir())


def test_a_workspace_that_is_gone(ground: Ground, outside_tmp: Path) -> None:
    """A workspace that is removed between two commands ends the second with a reason, not in another place."""
    workspace = outside_tmp / "gone"
    ended = ground.run(workspace, "pwd")
    assert ended.reason == "failure"
    assert "No such file or directory" in ended.stuck[1]


def test_the_environment_of_jaato_in_the_workspace_is_not_changed(ground: Ground) -> None:
    """jaato may be installed in a project's own environment: no command there changes what jaato is made of."""
    prefix = Path(sys.prefix).resolve()
    marker = prefix / f"marker-{os.getpid()}"
    line = f"touch {marker}; echo 'import os' >> {prefix}/lib/evil.pth; true"
    ended = ground.run(prefix.parent, line)
    assert not marker.exists()
    assert b"Read-only file system" in ended.head
    allowed = ground.run(prefix.parent, f"touch {marker}", SandboxAccess("workspace-write", control=True))
    assert allowed.code == 0
    marker.unlink()
