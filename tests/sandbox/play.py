"""Play attacks as this user, with and without a sandbox; print as JSON which did harm in each round.

Arguments: a directory to work in, the rounds as `backend:profile`, where `none:full` has no sandbox, `weak:PROFILE` is
bubblewrap with root's capabilities and without the filter, and `direct:full` starts the attacks without the warden.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.sandbox.attacks.table import ATTACKS, MODULES, Attack  # noqa: E402
from tests.sandbox.world import Outside, outside  # noqa: E402

from jaato.protocol.specs import SandboxAccess, SandboxProfile  # noqa: E402
from jaato.tools.processes.command import Command, CommandLimits  # noqa: E402
from jaato.tools.processes.launcher import WardenClient  # noqa: E402
from jaato.tools.processes.sandbox.backends import BackendChoice  # noqa: E402
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement, Sandbox  # noqa: E402

CODE = Path(__file__).parent / "attacks"
WITHIN_S = 60.0
DIRECT = ("inherited_descriptors",)
"""What no command of the warden meets, sandbox or not: descriptors of the process that starts it."""

for _module in MODULES:
    importlib.import_module(f"tests.sandbox.attacks.{_module}")


def interpreter() -> str:
    """A Python that this user may run where nothing is granted beyond the user's own rights."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(os.path.realpath(path), os.X_OK):
            return path
    raise SystemExit("no Python that this user may run")


def words(world: Outside, attacks: list[Attack]) -> list[str]:
    """The command line of the driver, which lies beside the world: no sandbox shows what is in the machine's `/tmp`."""
    code = world.described.parent / "code"
    place = code / CODE.relative_to(ROOT)
    if not place.exists():
        shutil.copytree(CODE, place)  # with what is compiled
    names = [one.name for one in attacks]
    return [
        interpreter(), "-I", "-S", "-B", str(place / "drive.py"), str(code), str(world.described), *names,
    ]  # fmt: skip


def weakened(given: Confinement) -> Confinement:
    """The same sandbox where nothing is dropped and no call refused: what the attacks are measured by."""
    kept: list[str] = []
    skip = 0
    for number, word in enumerate(given.prefix):
        if skip:
            skip -= 1
        elif word in ("--cap-drop", "--seccomp"):
            skip = 1
        elif word == "--ro-bind" and given.prefix[number + 1].startswith("/proc/"):
            skip = 2
        elif word != "--disable-userns":
            kept.append(word)
    return msgspec.structs.replace(given, prefix=(kept[0], "--unshare-net", *kept[1:]), network=None)


async def confined(world: Outside, attacks: list[Attack], backend: str, profile: str) -> str:
    """Play them in a sandbox, through the warden; what was printed."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": world.told["home"]}
    choice = "bubblewrap" if backend == "weak" else "auto" if backend == "none" else backend
    sandbox = Sandbox(
        world.workspace,
        environ=environ,
        private=(Path(world.told["state"]),),
        backend=cast("BackendChoice", choice),
    )
    launcher = WardenClient()
    try:
        given = UNCONFINED
        if profile != "full":
            given = await sandbox.confine(SandboxAccess(cast("SandboxProfile", profile)), world.workspace)
        given = weakened(given) if backend == "weak" else given
        command = Command(
            words(world, attacks),
            world.workspace,
            environ,
            limits=CommandLimits(bound_bytes=1 << 22),
            timeout_s=WITHIN_S,
            show=lambda _: None,
            confinement=given,
        )
        ended = await command.run(launcher)
        if ended.code != 0:
            raise SystemExit(f"the driver ended with {ended}")
    finally:
        launcher.close()
        sandbox.close()
    return (ended.head + ended.tail).decode()


def direct(world: Outside, attacks: list[Attack]) -> str:
    """Play them as a child of this process that is handed its descriptors."""
    file = os.open(f"{world.told['outside']}/inherited_descriptors/canary", os.O_WRONLY)
    place = os.open(f"{world.told['outside']}/inherited_descriptors", os.O_RDONLY)
    try:
        return subprocess.run(
            words(world, attacks), pass_fds=(file, place), stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    finally:
        os.close(file)
        os.close(place)


def play(place: Path, backend: str, profile: str) -> dict[str, object]:
    """One round: which attacks did harm, and what each returned."""
    attacks = [
        ATTACKS[name] for name in ATTACKS if (name in DIRECT) == (backend == "direct") or profile != "full"
    ]
    with outside(place, attacks) as world:
        inherited = (
            os.open(f"{world.told['outside']}/inherited_descriptors/canary", os.O_WRONLY)
            if profile != "full"
            else -1
        )
        if inherited >= 0:
            os.set_inheritable(inherited, True)
        plain = backend == "direct"
        printed = direct(world, attacks) if plain else asyncio.run(confined(world, attacks, backend, profile))
        if inherited >= 0:
            os.close(inherited)
        said: dict[str, str] = dict(json.loads(line) for line in printed.splitlines() if line.startswith("["))
        missing = [one.name for one in attacks if one.name not in said]
        if missing:
            raise SystemExit(f"not played: {missing}: {printed[-2000:]}")
        return {"harmed": world.harmed(said), "said": said}


def main() -> None:
    """Play every round."""
    place = Path(sys.argv[1])
    os.umask(0o022)
    results = {}
    for one in sys.argv[2:]:
        backend, _, profile = one.partition(":")
        results[one] = play(place, backend, profile)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
