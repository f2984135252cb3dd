"""A machine on which `jaato` is run, command by command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.warm import warm


class Desk:
    """One user's machine; `jaato` runs a command of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "run" / "jaato.sock"
        self.state = root / ".local" / "state" / "jaato"
        self.env = {
            "HOME": str(root),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def jaato(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """A finished command."""
        done = warm().run(list(args), data=None, cwd=self.root, env={**self.env, **environ}, timeout_s=60)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def serve(self, *args: str) -> subprocess.CompletedProcess[str]:
        """`jaato serve` at this machine's socket."""
        return self.jaato("serve", "--ipc-socket", str(self.path), *args)
