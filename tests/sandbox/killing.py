"""Sessions whose command, or whose machine, kills what watches them; as process 1 this looks for what is left.

Arguments: the root of the repository, a directory to work in, and the rounds as `backend:killer`: a back end or `none`, and
what happens: `command` kills jaato from within, `jaato` is killed from outside, or with it everything that watches its
command (`outside`). Prints as JSON for each round whether the session was killed, and the command lines that are left.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from tests.sandbox.attacking import Victim, processes_with, script

from jaato.tools.processes.warden.process_tree import children

SESSION = "killed-session"  # the name of its process, which the kernel cuts at 15 bytes
PR_SET_NAME = 15
SURVIVOR = "86421"
WITHIN_S = 60.0
LEAVES_IT = f"setsid sh -c 'trap \"\" TERM HUP INT; {{}}; exec sleep {SURVIVOR}' & sleep {{}}"
STOPS = "for p in /proc/[0-9]*; do grep -aq processes.warden $p/cmdline && kill -STOP ${p#/proc/}; done"
KILLS = f"for p in /proc/[0-9]*; do grep -q {SESSION} $p/comm && kill -9 ${{p#/proc/}}; done"
"""In a shell whose own command line has not the word, for it is read from a file."""


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


def begun(place: Path, backend: str, killer: str) -> int:
    """A session in a process of its own, which has a name of its own."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_NAME, SESSION.encode(), 0, 0, 0)
        with Victim(place, backend) as victim:
            session(victim, backend, killer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """The exit code of a session, which does not take for ever."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    raise TimeoutError("the session does not end")


def played(place: Path, backend: str, killer: str) -> dict[str, Any]:
    """One round."""
    running = begun(place, backend, killer)
    if killer != "command":
        until_there(f"sleep\0{SURVIVOR}")
        wardens = children(running)
        watching = [running, *wardens, *(pid for warden in wardens for pid in children(warden))]
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # none of them can do anything about the end of another
            for pid in watching if killer == "outside" else watching[:1]:
                os.kill(pid, number)
    code = ended(running)
    lasting = (backend, killer) == ("none", "command")  # what it leaves is looked at, not waited for
    deadline = time.monotonic() + (3 if lasting else WITHIN_S)
    while left() and time.monotonic() < deadline:
        time.sleep(0.02)
    return {"killed": code != 0, "left": left()}


def swept() -> None:
    """Kill whatever is left in this namespace, and wait for it."""
    while left():
        try:
            os.kill(-1, signal.SIGKILL)
            while True:
                os.waitpid(-1, 0)
        except (ProcessLookupError, ChildProcessError):
            time.sleep(0.01)


def main() -> None:
    """Be process 1, and play every round."""
    if os.getpid() != 1:
        raise SystemExit("only for a process namespace of its own")
    results = {}
    for one in sys.argv[3:]:
        backend, _, killer = one.partition(":")
        results[one] = played(Path(sys.argv[2], f"{backend}-{killer}"), backend, killer)
        swept()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
