"""What a command costs through the tool, and what a flood of output does to memory."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from pathlib import Path

import anyio
from bench.row import Row

from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient

RUNS = 100
ROUNDS = 3


def spent_s() -> float:
    """Processor seconds of this process and all it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak_kb() -> int:
    """The most memory this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def through_tool(argv: list[str], runs: int) -> None:
    """Run a command again and again under one warden, which is ended so that its time counts."""
    launcher = WardenClient()
    for _ in range(runs):
        ended = await Command(
            argv,
            Path(tempfile.gettempdir()),
            {"PATH": os.defpath},
            limits=CommandLimits(),
            show=lambda _text: None,
        ).run(launcher)
        if ended.spool is not None:
            ended.spool.unlink()
    launcher.close()


def rows() -> list[Row]:
    """The figures, best of three rounds."""
    command = ["/bin/sh", "-c", "true"]
    bare, tool, first = [], [], []
    for _ in range(ROUNDS):
        start = spent_s()
        for _ in range(RUNS):
            subprocess.run(command, capture_output=True, check=True)
        bare.append((spent_s() - start) / RUNS)
        start = spent_s()
        anyio.run(through_tool, command, 1)
        first.append(spent_s() - start)
        start = spent_s()
        anyio.run(through_tool, command, RUNS + 1)
        tool.append((spent_s() - start - min(first)) / RUNS)
    before = peak_kb()
    anyio.run(through_tool, ["/bin/sh", "-c", "yes | head -c 200000000"], 1)
    return [
        Row(
            "run: `true` through the tool",
            min(tool) * 1e3,
            "CPU ms",
            None,
            "the same by subprocess.run, below",
        ),
        Row("run: `true` by subprocess.run", min(bare) * 1e3, "CPU ms", None, "-"),
        Row("run: tool / subprocess.run", min(tool) / min(bare), "times", 8.0, "subprocess.run"),
        Row("run: the first command, warden started and ended", min(first) * 1e3, "CPU ms", None, "-"),
        Row("run: memory grown by 200 MB of output", (peak_kb() - before) / 1024, "MB", 4.0, "before it"),
    ]
