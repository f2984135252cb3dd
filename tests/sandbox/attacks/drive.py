"""Play attacks one after another, each in a process of its own, and print what each returned as a line of JSON.

Arguments: the root of the repository, the file that describes the world, the names of the attacks.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys

sys.path.insert(0, sys.argv[1])

from tests.sandbox.attacks.table import ATTACKS, MODULES, Attack, World

WITHIN_S = 20.0


def returned(one: Attack, world: World) -> str:
    """What an attack returned, or why it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.close(reading)
            said = repr(one.play(world))
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode("utf-8", "replace")[:60_000])
            os._exit(0)
    os.close(writing)
    data = b""
    while select.select([reading], [], [], WITHIN_S)[0]:
        more = os.read(reading, 1 << 16)
        if not more:
            break
        data += more
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return data.decode("utf-8", "replace")


def main() -> None:
    """Play them."""
    for module in MODULES:
        importlib.import_module(f"tests.sandbox.attacks.{module}")
    with open(sys.argv[2]) as file:
        told = json.load(file)
    for name in sys.argv[3:]:
        said = returned(ATTACKS[name], World(told, name))
        print(json.dumps([name, said]), flush=True)


if __name__ == "__main__":
    main()
