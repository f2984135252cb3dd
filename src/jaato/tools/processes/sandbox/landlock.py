"""Landlock as a back end: namespaces and mounts that the warden makes itself, Landlock and the filter above them."""

from __future__ import annotations

import marshal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from jaato.protocol.specs import SandboxProfile
from jaato.tools.processes.launch import PACKAGES
from jaato.tools.processes.sandbox.bubblewrap import PROBE_WITHIN_S, PROFILES
from jaato.tools.processes.sandbox.mounts import Operation, operations
from jaato.tools.processes.sandbox.plan import TMP, MountPlan
from jaato.tools.processes.warden import landlock, seccomp

ALWAYS_WRITABLE = ("/dev", "/proc", TMP)
PROBE = "import sys; sys.path.append(sys.argv[1]); from jaato.tools.processes.warden.namespaces import probe; probe()"


@dataclass(frozen=True, slots=True)
class Landlock:
    """The kernel's own means, which have confined a program here."""

    version: str = ""
    program: str = ""
    name: str = "landlock"
    profiles: frozenset[SandboxProfile] = PROFILES

    def start(self, plan: MountPlan, cwd: str, *, joined: bool) -> dict[str, Any]:
        """What a confinement by this back end has; the warden enters the working directory and the network."""
        return {
            "operations": tuple(operations(plan)[1:]),  # what is not named is read-only as it is
            "writable": (*ALWAYS_WRITABLE, *plan.writable),
        }


def find_landlock() -> tuple[Landlock | None, str]:
    """Landlock with namespaces if they work here; or why not."""
    if sys.platform != "linux":
        return None, "it is Linux's"
    if not seccomp.program():
        return None, "there is no filter of system calls for this machine"
    version = landlock.version()
    if version < landlock.LEAST_VERSION:
        return (
            None,
            f"the kernel has no Landlock of version {landlock.LEAST_VERSION} or newer, or it is turned off",
        )
    error = failure()
    return (None, error) if error else (Landlock(f"ABI {version}"), "")


def failure() -> str:
    """Why it does not confine a program here, tried for real; empty if it does."""
    given: list[Operation] = [
        ("devices", "", "/dev"),
        ("processes", "", "/proc"),
        ("empty", "", "/run"),
        ("seal", "", "/run"),
    ]
    request = {"joined": False, "operations": given, "writable": list(ALWAYS_WRITABLE)}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", PROBE, str(PACKAGES)], input=marshal.dumps(request),
            env={}, cwd="/", check=False, timeout=PROBE_WITHIN_S, capture_output=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end within {PROBE_WITHIN_S:g} s"
    except OSError as error:
        return str(error.strerror or error)
    return (
        "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[-300:] or "it failed"
    )
