"""Run commands in a real sandbox, through the warden."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import anyio

from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.tools.processes.command import Command, CommandLimits, Ended
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.backends import NAMES, BackendChoice, probe
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement, Sandbox

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/var/tmp"}
WORKING = tuple(name for name in NAMES if probe(name, dict(os.environ)).backend)  # noqa: TID251 a test's own PATH


class Runner:
    """Runs commands for one workspace; `output` has what the last one printed."""

    def __init__(self, workspace: Path, backend: str, profile: str) -> None:
        self.workspace = workspace
        self.profile = profile
        self.sandbox = Sandbox(workspace, environ=ENVIRON, backend=cast("BackendChoice", backend))
        self.launcher = WardenClient()
        self.output = ""

    async def confinement(self) -> Confinement:
        """What its commands are started with."""
        if self.profile == "full":
            return UNCONFINED
        return await self.sandbox.confine(SandboxAccess(cast("SandboxProfile", self.profile)), self.workspace)

    def run(
        self,
        argv: Sequence[str] | str,
        *,
        limits: CommandLimits | None = None,
        streams: Sequence[int] = (),
        confinement: Confinement | None = None,
    ) -> Ended:
        """Run a command, or a line of sh; in this confinement, if it was prepared before."""
        return anyio.run(self._run, argv, limits or CommandLimits(), streams, confinement)

    async def _run(
        self,
        argv: Sequence[str] | str,
        limits: CommandLimits,
        streams: Sequence[int],
        given: Confinement | None,
    ) -> Ended:
        command = Command(
            ["/bin/sh", "-c", argv] if isinstance(argv, str) else argv,
            self.workspace,
            ENVIRON,
            limits=limits,
            timeout_s=60.0,
            show=lambda _: None,
            streams=streams,
            confinement=given or await self.confinement(),
        )
        ended = await command.run(self.launcher)
        self.output = (ended.head + ended.tail).decode("utf-8", "replace")
        return ended


@contextmanager
def runner(workspace: Path, backend: str, profile: str) -> Iterator[Runner]:
    """A runner, put away at the end with everything that it started."""
    one = Runner(workspace, backend, profile)
    try:
        yield one
    finally:
        one.launcher.close()
        one.sandbox.close()
