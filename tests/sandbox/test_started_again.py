"""What a sandbox was to hide goes away before it is made: the program starts all the same, whatever its streams are."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import cast

import anyio
import pytest
from tests.sandbox.running import WORKING

from jaato.protocol.specs import SandboxAccess
from jaato.settings import environment
from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.backends import BackendChoice
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.processes.streams import Streams, open_pipes, open_pty

pytestmark = pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
LINE = (
    "test ! -e $HOME/.aws/key && echo started; exec 1>&-; exec 2>&-; until test -e over; do sleep 0.05; done"
)


def read(fd: int) -> str:
    """What comes from a descriptor until its end."""
    until, said = time.monotonic() + 60, b""
    while True:
        assert time.monotonic() < until, "the output does not end"
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError:
            break  # of a terminal
        if not data:
            break
        said += data
    return said.decode()


@pytest.mark.parametrize("kind", ["captured", "pipes", "terminal"])
@pytest.mark.parametrize("backend", WORKING)
def test_a_sandbox_that_cannot_be_made_is_made_anew(tmp_path: Path, backend: str, kind: str) -> None:
    """Commands, servers and terminals start once, in a sandbox of what is there then; what was handed over serves the
    second start as it would have the first, and is not held for longer."""
    home = tmp_path / "home"
    secret = home / ".aws"
    secret.mkdir(parents=True)
    (over := home / "work" / "over").parent.mkdir()
    (secret / "key").write_text("x")
    environ = {"HOME": str(home), "PATH": environment()["PATH"]}
    streams: Streams | None = (
        None if kind == "captured" else open_pipes() if kind == "pipes" else open_pty(24, 80)
    )
    said: list[str] = []

    async def main() -> None:
        sandbox = Sandbox(home / "work", environ=environ, backend=cast("BackendChoice", backend))
        launcher = WardenClient()
        shown: list[str] = []
        try:
            confinement = await sandbox.confine(SandboxAccess("read-only"), sandbox.workspace)
            shutil.rmtree(secret)
            command = Command(
                ["/bin/sh", "-c", LINE],
                sandbox.workspace,
                environ,
                limits=CommandLimits(),
                timeout_s=30,
                show=shown.append,
                streams=streams.theirs if streams is not None else (),
                confinement=confinement,
            )
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    ended = await command.run(launcher)
                    assert (ended.reason, ended.code) == ("", 0), ended.stuck

                tasks.start_soon(run)
                if streams is None:
                    while "started" not in "".join(shown):
                        await anyio.sleep(0.01)
                    said.append("".join(shown))
                else:
                    while not command.asking:
                        await anyio.sleep(0.002)
                    streams.close_theirs()
                    if (backend, kind) != ("landlock", "pipes"):  # bubblewrap has the streams too
                        over.touch()
                    said.append(await anyio.to_thread.run_sync(read, streams.output_fd))
                over.touch()
        finally:
            launcher.close()
            sandbox.close()

    try:
        anyio.run(main)
        assert said[0].count("started") == 1
    finally:
        if streams is not None:
            streams.close()
