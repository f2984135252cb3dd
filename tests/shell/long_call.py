"""A process that runs one command through the tool; its arguments are the command and the workspace.

It prints the pid of its warden first, then, with a third argument `memory`, the output's size, the growth of
its own and the supervisor's peak memory in kB, the characters shown and the longest its loop was held up.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
from tests.shell.running import Shell

from jaato.tools.call import Call


def peak_kb(pid: str) -> int:
    """The most memory a process has used."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def main() -> None:
    shell = Shell(Path(sys.argv[2]))
    await shell.plugin.run("true", call=shell.call())
    print(shell.plugin.launcher.warden_pid, flush=True)
    before = peak_kb("self")
    longest = 0.0
    peak_below = 0

    async def watch() -> None:
        nonlocal longest, peak_below
        last = time.monotonic()
        while True:
            await anyio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            below = Path(
                f"/proc/{shell.plugin.launcher.warden_pid}/task/{shell.plugin.launcher.warden_pid}/children"
            )
            for pid in below.read_text().split():
                try:
                    peak_below = max(peak_below, peak_kb(pid))
                except (OSError, StopIteration):
                    continue

    shown = 0

    def output(text: str) -> None:
        nonlocal shown
        shown += len(text)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        done = await shell.plugin.run(
            sys.argv[1], call=Call("1", "run", {}, workspace=shell.workspace, output=output)
        )
        group.cancel_scope.cancel()
    if sys.argv[3:] == ["memory"]:
        print(done.get("output_bytes"), peak_kb("self") - before, peak_below, shown, longest)
    shell.plugin.shutdown()


if __name__ == "__main__":
    anyio.run(main)
