"""Processes of our own that work on data of strangers: what git, ripgrep and workers are held by."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.kit import call, say
from tests.sandbox.running import WORKING

from jaato import Agent
from jaato.providers.scripted import ScriptedProvider
from jaato.settings import environment
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.processes.sandbox.worker_sandbox import worker_sandbox
from jaato.tools.tool import tool

needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in WORKING, reason="bubblewrap does not work here")
TRIES = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def code(done): return 0 if done >= 0 else ctypes.get_errno()
def make(family):
    try: socket.socket(family, socket.SOCK_STREAM).close()
    except OSError as error: return error.errno
    return 0
print(code(libc.syscall(425, 0, None)), make(40), code(libc.personality(0x400000)), code(libc.syscall(437, -100, None, None, 0)))
"""
FREE = [errno.EFAULT, 0, 0, errno.EINVAL]
"""io_uring_setup, a socket of AF_VSOCK, memory that executes when read, openat2: what the kernel says without a filter."""
HELD = [errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPERM, errno.ENOSYS]


def said(argv: list[str], descriptors: tuple[int, ...] = ()) -> list[int]:
    """The errors that a program met."""
    done = subprocess.run(argv, pass_fds=descriptors, capture_output=True, check=True, env={})
    return [int(word) for word in done.stdout.split()]


@needs_bubblewrap
def test_helpers_have_the_filter_of_system_calls(tmp_path: Path) -> None:
    """A worker, and what git starts, are refused what commands are refused; the same program is not, without."""
    command = ["/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable, "-I", "-c", TRIES]
    free = said(command)
    assert [one for one, known in zip(free, FREE, strict=True) if one != known] in ([], [errno.ENOSYS])
    with worker_sandbox(command[0]) as start:
        assert said([*start.prefix, *command], start.descriptors) == HELD
    reader = Sandbox(
        tmp_path, environ={"HOME": str(tmp_path), "PATH": environment()["PATH"]}
    ).read_only_runner()
    with reader.start(command, tmp_path) as (argv, handed):
        assert said(argv, handed) == HELD


@needs_bubblewrap
def test_the_filter_is_handed_over_and_nothing_else(tmp_path: Path) -> None:
    """A helper has its standard streams; bubblewrap has read the filter and closed it."""
    command = ["/bin/ls", "/proc/self/fd"]
    with worker_sandbox(command[0]) as start:
        assert said([*start.prefix, *command], start.descriptors) == [0, 1, 2, 3]  # the listing's own
    reader = Sandbox(
        tmp_path, environ={"HOME": str(tmp_path), "PATH": environment()["PATH"]}
    ).read_only_runner()
    with reader.start(command, tmp_path) as (argv, handed):
        assert said(argv, handed) == [0, 1, 2, 3]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("backend", "held"), [("auto", True), ("bubblewrap", True), ("none", False), ("landlock", False)]
)
def test_the_setting_decides_for_helpers_too(tmp_path: Path, backend: str, held: bool) -> None:
    """Whoever turns the sandbox off, or takes one that is no program, has helpers with their own bounds alone."""
    (tmp_path / "work").mkdir()
    config = tmp_path / ".config" / "jaato" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'sandbox_backend = "{backend}"\n')
    found: list[bool] = []

    @tool(core=True, access="read")
    def look() -> str:
        """Look."""
        with worker_sandbox(sys.executable) as start:
            found.append(bool(start.prefix))
        return "seen"

    async def main() -> None:
        script = ScriptedProvider([call("look"), say("ok")])
        environ = {"HOME": str(tmp_path), "PATH": environment()["PATH"]}
        async with Agent(
            provider=script,
            workspace=tmp_path / "work",
            environ=environ,
            state_dir=tmp_path / "state",
            tools=[look],
        ) as agent:
            await agent.run("go")
            sandbox = agent.live.services["sandbox"]
            assert (sandbox.choice, sandbox.read_only_runner((tmp_path,)).backend is not None) == (
                backend,
                held,
            )

    anyio.run(main)
    assert found == [held]
