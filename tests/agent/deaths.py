"""Sessions that die, each in a process of its own that is forked from one that has loaded everything.

`python -m tests.agent.deaths MODULE` reads lines of JSON, `[path, event]`, and lets `main` of that module play in a forked
process; it prints each one's exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

NEEDED = (
    "anyio._backends._asyncio",
    "importlib.metadata",
    "jaato.plugins.introspection",
    "jaato.plugins.subagent.plugin",
    "jsonschema_rs",
)
Die = Callable[[Path, int], int]


@contextmanager
def dying(module: str) -> Iterator[Die]:
    """What plays the module's session below a path until it dies at an event; gives the exit code of its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agent.deaths", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        given, told = process.stdin, process.stdout
        assert given is not None
        assert told is not None

        def die(path: Path, event: int) -> int:
            print(json.dumps([str(path), event]), file=given, flush=True)
            return int(told.readline())

        yield die
        given.close()


def serve(main: Callable[[Path, int], Any]) -> None:
    """Play once for each line, one after the other."""
    for line in sys.stdin:
        path, event = json.loads(line)
        child = os.fork()
        if not child:
            try:
                os.dup2(2, 1)
                anyio.run(main, Path(path), event)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    for name in NEEDED:
        importlib.import_module(name)
    serve(importlib.import_module(sys.argv[1]).main)
