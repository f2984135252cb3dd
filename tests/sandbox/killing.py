"""A session whose command, or whose machine, kills what watches it; as process 1 this looks for what is left.

Arguments: the root of the repository, a directory to work in, a back end or `none`, and what happens: `command` kills
jaato from within, `jaato` is killed from outside, or with it everything that watches its command (`outside`).
Prints as JSON whether the session was killed, and the command lines that are left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from tests.sandbox.attacking import Victim, processes_with, script

from jaato.tools.processes.warden.tree import children

SESSION = "session-to-be-killed"
SURVIVOR = "86421"
WITHIN_S = 20.0
LEAVES_IT = f"setsid sh -c 'trap \"\" TERM HUP INT; {{}}; exec sleep {SURVIVOR}' & sleep {{}}"
STOPS = "for p in /proc/[0-9]*; do grep -aq processes.warden $p/cmdline && kill -STOP ${p#/proc/}; done"
KILLS = f"for p in /proc/[0-9]*; do grep -aq {SESSION} $p/cmdline && kill -9 ${{p#/proc/}}; done"
"""In a shell whose own command line has neither word, for it is read from a file."""


def session(victim: Victim, backend: str, killer: str) -> None:
    """Run the command that leaves something behind."""
    own = {"stop": script(STOPS, KILLS), "evil": script(LEAVES_IT.format("./stop", 2))}
    if killer != "command":
        own["evil"] = script(LEAVES_IT.format(":", 60))
    victim.write(own)
    off: dict[str, Any] = {"sandbox": "full"} if backend == "none" else {}
    victim.run("./evil", yes=True, **off)


def left() -> list[str]:
    """The command lines of all other processes."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found += [line] if line else []
    return found


def until_there(mark: str) -> None:
    """Wait until a process has this on its command line; not for ever."""
    deadline = time.monotonic() + WITHIN_S
    while not processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.02)


def main() -> None:
    """Be process 1, or the session below it."""
    place, backend, killer = sys.argv[2:5]
    if SESSION in sys.argv:
        with Victim(Path(place), backend) as victim:
            session(victim, backend, killer)
        return
    running = subprocess.Popen([sys.executable, "-B", __file__, *sys.argv[1:5], SESSION])
    if killer != "command":
        until_there(f"sleep\0{SURVIVOR}")
        wardens = children(running.pid)
        watching = [running.pid, *wardens, *(pid for warden in wardens for pid in children(warden))]
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # none of them can do anything about the end of another
            for pid in watching if killer == "outside" else watching[:1]:
                os.kill(pid, number)
    code = running.wait(WITHIN_S)
    deadline = time.monotonic() + 3
    while left() and time.monotonic() < deadline:
        time.sleep(0.02)
    print(json.dumps({"killed": code != 0, "left": left()}))


if __name__ == "__main__":
    main()
