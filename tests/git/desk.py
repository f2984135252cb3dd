"""A workspace with a real repository, and the git plugin at work in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from jaato.plugins.git.plugin import GitPlugin
from jaato.tools.call import Call
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes.sandbox.backends import BackendChoice
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.tool import Tool, tools_of


class Host:
    """A host with this workspace and environment."""

    config: Mapping[str, Any] = {}

    def __init__(self, workspace: Path, environ: Mapping[str, str], backend: BackendChoice) -> None:
        self.workspace = workspace
        self.services = {
            "environ": environ,
            "roots": Roots(workspace),
            "sandbox": Sandbox(workspace, environ=environ, backend=backend),
        }

    def service(self, name: str) -> Any:
        return self.services[name]


class Desk:
    """Runs git as a user would, and tools as the pipeline would: arguments first held against the schema.

    `backend` is the sandbox of the tools.
    """

    backend: BackendChoice = "auto"

    def __init__(self, path: Path, inner: str = "work") -> None:
        self.home = path / "home"
        self.home.mkdir(exist_ok=True)
        self.work = path / inner
        self.work.mkdir(exist_ok=True, parents=True)
        self.environ = {"PATH": os.defpath, "HOME": str(self.home)}
        self.open()

    def open(self) -> None:
        """The plugin, made for the workspace as it is now."""
        plugin = GitPlugin(Host(self.work, self.environ, self.backend))
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools_of(plugin, "git")}

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """What a user's git prints."""
        given = {
            **self.environ,
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
            "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
        }
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=cwd or self.work,
            env=given,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, message: str, **files: str) -> str:
        """Write files (`_` in a name is a dot), commit everything; the hash."""
        for name, content in files.items():
            (self.work / name.replace("_", ".")).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def ask(self, name: str, **arguments: Any) -> Any:
        """Call a tool on valid arguments."""
        tool = self.tools[name]
        assert not tool.issues(arguments), tool.issues(arguments)
        run: Callable[[], Any] = lambda: tool.run(arguments, Call("1", name, arguments, workspace=self.work))  # noqa: E731
        return anyio.run(run)


def started(path: Path) -> Desk:
    """A desk with an empty repository on `trunk`."""
    desk = Desk(path)
    desk.git("init", "-q", "-b", "trunk")
    return desk
