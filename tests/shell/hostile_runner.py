"""Runs hostile commands through the tool, if it can in a process namespace, and looks for survivors.

Its arguments: the file of commands, a directory to work in, the most processes a command may have. It prints
one JSON object per batch, `{names, survivors, results}`. As process 1 it takes every process but its warden
for a survivor.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from jaato.plugins.shell import ShellPlugin
from jaato.tools.call import Call

BATCH = 16
ENDS_AFTER_S = 240


class RunnerHost:
    """A host with this directory and these limits."""

    def __init__(self, workspace: Path, config: Mapping[str, Any]) -> None:
        self.workspace = workspace
        self.config = config

    def service(self, name: str) -> Any:
        raise KeyError(name)


def alive(marks: list[str], namespace: bool, spared: set[int]) -> list[str]:
    """Every living process that should not be: in a namespace all others, else those that carry a mark."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in spared:
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            state = stat[0] if stat[17] == "1" else "with threads"  # the first of them may be a zombie
            command = (
                Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            environ = Path(f"/proc/{entry}/environ").read_bytes().decode("utf-8", "replace")
            place = str(Path(f"/proc/{entry}/cwd").readlink())
            group = Path(f"/proc/{entry}/cgroup").read_text()
        except OSError:
            continue
        text = f"{command} {environ} {place}"
        if state not in ("Z", "X") and (
            namespace or "/jaato-" in group or any(mark in text for mark in marks)
        ):
            found.append(f"{entry} {state} {command[:200]}")
    return found


def settled(marks: list[str], namespace: bool, spared: set[int]) -> list[str]:
    """The survivors. A killed process may take a moment to be gone from the list; a living one stays."""
    for _ in range(500):
        found = alive(marks, namespace, spared)
        if not found:
            return []
        time.sleep(0.01)
    return found


async def one(plugin: ShellPlugin, case: dict[str, Any], mark: str, folder: Path) -> str:
    """Run one command to the end it is meant to have."""
    folder.mkdir(parents=True, exist_ok=True)
    call = Call(mark, "run", {}, workspace=folder)
    command = case["command"].replace("MARK", mark)
    try:
        match case["end"]:
            case "cancel":
                with anyio.move_on_after(0.15):
                    return json.dumps(await plugin.run(command, call=call))
                return "cancelled"
            case "timeout":
                return json.dumps(
                    await plugin.run(command, timeout_s=1.5 if "bomb" in case else 0.15, call=call)
                )
        return json.dumps(await plugin.run(command, timeout_s=5.0, call=call))
    except Exception as error:
        return repr(error)


async def run(cases: list[dict[str, Any]], folder: Path, namespace: bool, most: int) -> None:
    plugin = ShellPlugin(RunnerHost(folder, {"grace_s": 0.05, "settle_s": 0.03, "max_processes": most}))
    crowd = [case for case in cases if not case.get("alone")]
    batches = [crowd[start : start + BATCH] for start in range(0, len(crowd), BATCH)]
    batches += [[case] for case in cases if case.get("alone")]
    number = 0
    for batch in batches:
        marks = [f"{os.getpid()}{number + place:05d}7" for place in range(len(batch))]
        number += len(batch)
        results: list[str] = [""] * len(batch)

        async def fill(place: int) -> None:
            results[place] = await one(plugin, batch[place], marks[place], folder / marks[place])  # noqa: B023

        async with anyio.create_task_group() as group:
            for place in range(len(batch)):
                group.start_soon(fill, place)
        spared = {os.getpid(), plugin.launcher.warden_pid}
        found = settled(marks, namespace, spared)
        print(
            json.dumps({"names": [c["name"] for c in batch], "survivors": found, "results": results}),
            flush=True,
        )
    plugin.shutdown()
    left = settled([], namespace, {os.getpid()}) if namespace else []
    print(json.dumps({"names": ["shutdown"], "survivors": left, "results": []}))


def main() -> None:
    """Read the arguments and run; whatever hangs, this process ends, and the namespace it began."""
    faulthandler.dump_traceback_later(ENDS_AFTER_S, exit=True)
    corpus, folder, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    namespace = os.getpid() == 1
    cases = [json.loads(line) for line in corpus.read_text().splitlines()]
    if os.getuid() != 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (2 * most, 2 * most))
    wanted = [
        case
        for case in cases
        if (os.getuid() != 0 if case.get("bomb") else namespace or not case.get("alone"))
    ]
    anyio.run(run, wanted, folder, namespace, most)


if __name__ == "__main__":
    main()
