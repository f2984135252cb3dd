"""What the sandbox adds to the start of a command, in a workspace and a home as people have them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio
from bench.row import Row
from bench.shell import spent_s

from jaato.protocol.specs import SandboxAccess
from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement, Sandbox

ROOTS_OWN = ("/proc/", "/etc/")
"""Where root has more to be covered than anybody else."""
RUNS = 50
ROUNDS = 3
MOUNTING = ("--ro-bind", "--bind", "--tmpfs", "--dev", "--proc", "--bind-fd", "--ro-bind-fd")
HOME = (".ssh/", ".aws/", ".gnupg/", ".config/gh/", ".npmrc", ".bash_history", ".gitconfig", ".cache/")
WORKSPACE = (".git/hooks/", ".git/config", ".git/HEAD", "node_modules/", "src/a.py")


def make(root: Path, names: tuple[str, ...]) -> None:
    """Files and directories (those that end with a slash) below a root."""
    for name in names:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()


async def commands(
    workspace: Path, environ: Mapping[str, str], confinement: Confinement | None, runs: int
) -> None:
    """Start a command again and again under one warden, which is ended so that its time counts."""
    launcher = WardenClient()
    for _ in range(runs):
        ended = await Command(
            ["/bin/sh", "-c", "true"],
            workspace,
            environ,
            limits=CommandLimits(),
            show=lambda _text: None,
            confinement=confinement or UNCONFINED,
        ).run(launcher)
        assert ended.code == 0, ended
    launcher.close()


def rows() -> list[Row]:
    """The figures, best of three rounds, the rounds of each kind beside those of the others."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as place:
        root = Path(place)
        home, workspace = root / "home", root / "work"
        make(home, HOME)
        make(workspace, WORKSPACE)
        environ = {"PATH": os.defpath, "HOME": str(home)}
        sandbox = Sandbox(workspace, environ=environ, private=(root / "state",), cache=root / "cache")
        kinds: dict[str, Confinement | None] = {"none": None}
        for profile in ("read-only", "workspace-write"):
            kinds[profile] = anyio.run(sandbox.confine, SandboxAccess(profile), workspace)
        spent: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, confinement in kinds.items():
                start = spent_s()
                anyio.run(commands, workspace, environ, confinement, RUNS)
                spent[kind].append((spent_s() - start) / RUNS * 1e3)
        writing = kinds["workspace-write"]
        assert writing is not None
        targets = [
            writing.prefix[at + (1 if word in ("--tmpfs", "--dev", "--proc") else 2)]
            for at, word in enumerate(writing.prefix)
            if word in MOUNTING
        ]
        mounts = len([path for path in targets if not path.startswith(ROOTS_OWN)])
        sandbox.close()
    plain = min(spent["none"])
    return [
        Row("sandbox: a command without one", plain, "CPU ms", None, "-"),
        Row(
            "sandbox: read-only, more than without",
            min(spent["read-only"]) - plain,
            "CPU ms",
            15.0,
            "without",
        ),
        Row(
            "sandbox: workspace-write, more than without",
            min(spent["workspace-write"]) - plain,
            "CPU ms",
            15.0,
            "without",
        ),
        Row("sandbox: mounts of the usual workspace", mounts, "mounts", 20, "-"),
        Row("sandbox: more of them as this user", len(targets) - mounts, "mounts", None, "-"),
    ]
