"""A project in a home of its own, and commands in it with a given access, through the tool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
from tests.shell.running import OneHost

from jaato.plugins.shell import ShellPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.settings import environment
from jaato.tools.call import Call
from jaato.tools.processes.sandbox.sandbox import Sandbox

READ_ONLY = SandboxAccess("read-only")
WORKSPACE_WRITE = SandboxAccess("workspace-write")
FULL = SandboxAccess("full")


class Host(OneHost):
    """A host with a sandbox."""

    def __init__(self, workspace: Path, environ: dict[str, str], sandbox: Sandbox) -> None:
        super().__init__(workspace, environ=environ)
        self.sandbox = sandbox

    def service(self, name: str) -> Any:
        return self.sandbox if name == "sandbox" else super().service(name)


class Project:
    """A home with a workspace in it; `run` runs a command line as the model would."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.place = self.home / "project"
        self.place.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = A\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        self.environ = {"HOME": str(self.home), "PATH": environment()["PATH"], "LANG": "C.UTF-8"}
        self.sandbox = Sandbox(
            self.place, environ=self.environ, private=(root / "state",), cache=root / "cache"
        )
        self.plugin = ShellPlugin(Host(self.place, self.environ, self.sandbox))

    def run(
        self, line: str, access: SandboxAccess = WORKSPACE_WRITE, timeout_s: float = 60
    ) -> dict[str, Any]:
        """The result of a command line."""

        async def main() -> dict[str, Any]:
            call = Call("c1", "run", {}, workspace=self.place, session_id="s1", access=access)
            return await self.plugin.run(line, timeout_s=timeout_s, call=call)

        return anyio.run(main)

    def works(self, line: str, access: SandboxAccess = WORKSPACE_WRITE, timeout_s: float = 60) -> str:
        """The output of a command line that ends well."""
        result = self.run(line, access, timeout_s)
        assert result["exit_code"] == 0, result
        return str(result["output"])

    def git(self) -> None:
        """Make it a repository with one commit, from outside."""
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first", "--allow-empty"]):
            subprocess.run(["git", *words], cwd=self.place, env=self.environ, check=True)

    def close(self) -> None:
        """End what runs and remove its files."""
        self.plugin.shutdown()
        self.sandbox.close()
        shutil.rmtree(self.home, ignore_errors=True)
