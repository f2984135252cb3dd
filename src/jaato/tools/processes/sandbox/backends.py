"""Which back ends there are here, found by running each, and which one is used."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from jaato.protocol.specs import SandboxProfile
from jaato.settings import load
from jaato.tools.processes.sandbox.bubblewrap import find_bubblewrap
from jaato.tools.processes.sandbox.landlock import find_landlock
from jaato.tools.processes.sandbox.plan import MountPlan

BackendChoice = Literal["auto", "bubblewrap", "landlock", "none"]
BackendName = Literal["bubblewrap", "landlock"]
NAMES: tuple[BackendName, ...] = ("bubblewrap", "landlock")
"""In the order of preference."""
MOST_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
DEBIAN_NAMESPACES = Path("/proc/sys/kernel/unprivileged_userns_clone")
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


class Backend(Protocol):
    """What confines a process."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def program(self) -> str:
        """The path of its program; empty if it needs none."""
        ...

    @property
    def profiles(self) -> frozenset[SandboxProfile]:
        """The profiles that it enforces in full."""
        ...

    def start(self, plan: MountPlan, cwd: str, *, joined: bool) -> dict[str, Any]:
        """The fields of a `Confinement`; `joined` says that the session's network namespace is entered before."""
        ...


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of trying a back end: itself, or why it cannot be used and what to do."""

    name: BackendName
    backend: Backend | None
    why: str = ""


_probed: dict[tuple[BackendName, str, tuple[Path, ...]], Probed] = {}
_lock = threading.Lock()


def probe(name: BackendName, environ: Mapping[str, str], untrusted: Iterable[Path] = ()) -> Probed:
    """Try a back end by running it, once in a process."""
    key = (name, environ.get("PATH", os.defpath), tuple(untrusted))
    with _lock:
        if key not in _probed:
            _probed[key] = tried(name, environ, key[2])
        return _probed[key]


def tried(name: BackendName, environ: Mapping[str, str], untrusted: tuple[Path, ...]) -> Probed:
    """Try a back end by running it."""
    if sys.platform != "linux":
        return Probed(name, None, "it is Linux's")
    backend: Backend | None
    backend, why = find_bubblewrap(environ, untrusted) if name == "bubblewrap" else find_landlock()
    return Probed(name, backend, "; ".join(one for one in (why, why and hindrance(why)) if one))


def chosen(environ: Mapping[str, str]) -> BackendChoice:
    """The choice of a user, for who was given no settings. Raises `ConfigError`."""
    choice: BackendChoice = load(environ=environ)["sandbox_backend"]
    return choice


def choose(
    choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> Backend | None:
    """The back end for a choice; None where it does not work here."""
    untrusted = tuple(untrusted)
    for name in NAMES:
        if choice in ("auto", name):
            found = probe(name, environ, untrusted).backend
            if found is not None:
                return found
    return None


def why_none(choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()) -> str:
    """Why there is no back end for a choice, as sentences."""
    if choice == "none":
        return "the setting sandbox_backend is none."
    untrusted = tuple(untrusted)
    tries = [probe(name, environ, untrusted) for name in NAMES if choice in ("auto", name)]
    return " ".join(f"{one.name}: {one.why}." for one in tries if one.why)


def described(
    choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> tuple[str, str]:
    """What is used here, with what is known of the others, and what to do if nothing is."""
    untrusted = tuple(untrusted)
    used = choose(choice, environ, untrusted)
    if used is None:
        text = f"none, so every command asks: {why_none(choice, environ, untrusted)}"
        return (
            text,
            "Remove the setting." if choice == "none" else "Do what it says, then run jaato doctor again.",
        )
    where = f" at {used.program}" if used.program else ""
    words = [f"{used.name} {used.version}{where} enforces {' and '.join(sorted(used.profiles))}"]
    for name in NAMES:
        other = probe(name, environ, untrusted)
        if name != used.name:
            words.append(f"{name}: {f'{other.backend.version} works too' if other.backend else other.why}")
    return "; ".join(words), ""


def hindrance(why: str) -> str:
    """What on this machine is behind a failure, and what to do; empty if it is not known."""
    if number_in(MOST_NAMESPACES) == 0:
        return "user namespaces are turned off; as root: sysctl user.max_user_namespaces=10000"
    if os.geteuid() != 0 and number_in(DEBIAN_NAMESPACES) == 0:
        return "only root may make user namespaces; as root: sysctl kernel.unprivileged_userns_clone=1"
    if os.geteuid() != 0 and number_in(APPARMOR) == 1:
        return (
            "AppArmor keeps programs without a profile from using user namespaces; install the system's bubblewrap with its"
            " profile (apparmor-profiles), or as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if "/proc" in why and "max_" not in why:
        return (
            "where parts of /proc are covered, as in a container or another sandbox, the kernel mounts no new one; run jaato"
            " outside of it, or the container with --security-opt systempaths=unconfined"
        )
    if "not permitted" in why or "ermission" in why:
        return (
            "a container or another sandbox around jaato forbids it; run jaato outside of it, or the container with"
            " --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
        )
    return ""


def number_in(path: Path) -> int | None:
    """The number that a file of the kernel has; None where there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
