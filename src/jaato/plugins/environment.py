"""The plugin `environment`: `get_environment` tells where the agent is and what it can use."""

from __future__ import annotations

import datetime
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio
import anyio.to_thread

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ToolTimeout
from jaato.tools.call import Call
from jaato.tools.host_services import environ_of
from jaato.tools.processes.git import GitFailed, git_program, make_environment, run_git
from jaato.tools.processes.sandbox.sandbox import Sandbox, sandbox_of
from jaato.tools.tool import tool

Aspect = Literal["os", "shell", "python", "git", "workspace", "tools", "all"]

# fmt: off
PROGRAMS = [
    "git", "gh", "rg", "fd", "jq", "curl", "wget", "make", "cmake", "gcc", "clang", "go", "cargo", "rustc",
    "node", "npm", "pnpm", "yarn", "bun", "deno", "python3", "uv", "pip", "pytest", "ruff", "java", "mvn",
    "gradle", "ruby", "php", "perl", "docker", "podman", "kubectl", "terraform", "sqlite3", "psql",
    "ffmpeg", "tmux",
]
# fmt: on
GIT_WITHIN_S = 3.0
MAX_STATUS_BYTES = 4_194_304
MAX_ENTRIES = 50
MAX_CHANGES = 20


class EnvironmentPlugin(Plugin):
    """Facts about the machine and the workspace; reads, never changes."""

    name: ClassVar[str] = "environment"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.sandbox = sandbox_of(host)

    @tool(name="get_environment", category="system", access="read", core=True)
    async def get_environment(self, aspect: Aspect | None = None, *, call: Call) -> dict[str, Any]:
        """The operating system, shell, date, git state, installed programs."""
        given = environ_of(self.host)
        facts: dict[str, Any] = {}
        match aspect:
            case None:
                facts = {
                    "workspace": str(call.workspace),
                    "os": system(),
                    "shell": shell(given),
                    "python": platform.python_version(),
                    "date": now(),
                    "git": await git(call.workspace, given, self.sandbox),
                }
            case "os":
                facts = machine()
            case "shell":
                facts = {"shell": shell(given), "path": given.get("PATH", ""), "home": given.get("HOME")}
            case "python":
                facts = python(given)
            case "git":
                facts = {"git": await git(call.workspace, given, self.sandbox, changes=MAX_CHANGES)}
            case "workspace":
                facts = await anyio.to_thread.run_sync(folder, call.workspace)
            case "tools":
                facts = {"tools": programs(given)}
            case "all":
                facts = {
                    **machine(),
                    "shell": shell(given),
                    **python(given),
                    **await anyio.to_thread.run_sync(folder, call.workspace),
                    "git": await git(call.workspace, given, self.sandbox, changes=MAX_CHANGES),
                    "tools": programs(given),
                }
        return {name: fact for name, fact in facts.items() if fact is not None}


def system() -> str:
    """The operating system in a few words."""
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        return f"{platform.freedesktop_os_release().get('PRETTY_NAME', 'Linux')} ({name})"
    except OSError:
        return name


def machine() -> dict[str, Any]:
    """The machine: system, host, processors, free disk is the workspace's."""
    import os

    return {"os": system(), "host": platform.node(), "processors": os.cpu_count(), "date": now()}


def now() -> str:
    """The local date and time with its offset, to the minute."""
    return datetime.datetime.now().astimezone().isoformat(timespec="minutes")


def shell(environ: Mapping[str, str]) -> str:
    """The shell that commands are written for."""
    path = environ.get("PATH")
    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "none"


def python(environ: Mapping[str, str]) -> dict[str, Any]:
    """The interpreter we run in, and the one commands find."""
    return {
        "python": platform.python_version(),
        "python_program": shutil.which("python3", path=environ.get("PATH")),
        "virtual_environment": environ.get("VIRTUAL_ENV"),
        "jaato_python": sys.executable,
    }


def programs(environ: Mapping[str, str]) -> list[str]:
    """Which well-known programs are installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=environ.get("PATH"))]


def folder(workspace: Path) -> dict[str, Any]:
    """The workspace, the first of what is in it (folders end in a slash), and the free disk space."""
    facts: dict[str, Any] = {"workspace": str(workspace)}
    try:
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in workspace.iterdir())
    except OSError as error:
        return {
            **facts,
            "problem": f"The workspace cannot be read: {error.strerror}. Create it or choose another.",
        }
    facts["entries"] = names[:MAX_ENTRIES]
    if len(names) > MAX_ENTRIES:
        facts["more_entries"] = len(names) - MAX_ENTRIES
    facts["free_disk_mb"] = shutil.disk_usage(workspace).free // 1_000_000
    return facts


async def git(
    workspace: Path, environ: Mapping[str, str], sandbox: Sandbox, changes: int = 0
) -> dict[str, Any] | str | None:
    """Branch and changes of the repository around the workspace; None without one or without git."""
    program = git_program(environ, [workspace])
    if program is None:
        return None
    asked = ["status", "--porcelain=v1", "--branch", "--ignore-submodules=all"]
    try:
        with anyio.fail_after(GIT_WITHIN_S):
            reader = await anyio.to_thread.run_sync(sandbox.read_only_runner, (workspace,))
            guarded = await make_environment(program, workspace, environ, reader)
            done = await run_git(
                program, asked, reader, cwd=workspace, environ=guarded, most_bytes=MAX_STATUS_BYTES
            )
    except GitFailed:
        return None
    except (TimeoutError, ToolTimeout):
        return f"git status took more than {GIT_WITHIN_S:g} s"
    if done.code not in (0, None):
        return None
    first, *rest = done.data.decode("utf-8", "replace").splitlines() or [""]
    state = {"branch": first.removeprefix("## ").removeprefix("No commits yet on "), "changed": len(rest)}
    return {**state, "changes": rest[:changes]} if changes and rest else state
