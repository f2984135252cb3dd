"""Remove secrets from the visible environment of the program, and protect its memory from other processes of the user.

`/proc/PID/environ` shows the memory with the environment that a process was started with. The variables are copied to
memory that is not shown, with `putenv(3)`, and overwritten there. Where that is not possible, they are passed in a sealed
memory file to a new image of the same process, which sets them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

VARIABLE = "JAATO_ENVIRON_FD"
"""The variable of the clean environment with the descriptor of the memory file."""
PROGRAMS = frozenset(
    ("jaato.__main__", "jaato.cli.__main__", "server.__main__", "server.test_client", "rich_client.__main__")
)
"""The modules that are this program with `python -m`."""
SCRIPTS = ("jaato", "rich_client.py")
"""The names of the installed script, and of the documented one."""
OWN_IMAGE = "/proc/self/exe"
PR_SET_DUMPABLE = 4
ENV_START, ENV_END = 47, 48
"""The positions of these addresses in `/proc/PID/stat` (fields 50 and 51), counted from the one after the name."""
LOWEST_FD = 3
KEPT = frozenset(
    (
        *("PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "COVERAGE_PROCESS_START"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW", "LD_DEBUG", "LD_DEBUG_OUTPUT"),
        *("GCONV_PATH", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_CHECK_"),
        *("MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH", "PYTHONCASEOK"),
        *("PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "PYTHONPYCACHEPREFIX"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONHASHSEED", "PYTHONINTMAXSTRDIGITS"),
        *("PYTHONUTF8", "PYTHONIOENCODING", "PYTHONCOERCECLOCALE", "PYTHONUNBUFFERED", "PYTHONDEBUG"),
        *("PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONWARNINGS", "PYTHONWARNDEFAULTENCODING"),
        *("PYTHONFAULTHANDLER", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME", "PYTHONASYNCIODEBUG"),
        *("PYTHONMALLOC", "PYTHONMALLOCSTATS", "PYTHONDEVMODE", "PYTHONNODEBUGRANGES"),
        *("PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT", "PYTHON_FROZEN_MODULES", "PYTHON_GIL"),
        *("PYTHON_JIT", "PYTHON_CPU_COUNT", "PYTHON_TLBC", "PYTHON_COLORS"),
    )
)
"""The variables that stay, as the loader and the interpreter read them before the program runs."""
KEPT_PREFIX = b"LC_"


def protect() -> None:
    """Continue without a visible environment, in a process that cannot be dumped or traced, after at most one exec.

    Does as much of this as the system supports; nothing in a process of another program.
    """
    if not is_program():
        return
    given = os.environ.pop(VARIABLE, None)  # noqa: TID251 before there are settings
    restored = given is not None and restore(given)
    if not (
        restored or hide_environment() or given is not None
    ):  # never a second time: it would be without end
        restart()
    forbid_dumps()


def is_program() -> bool:
    """Whether this process runs this program, not one that calls it."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name in PROGRAMS
    return os.path.basename(getattr(main, "__file__", None) or "") in SCRIPTS


def hide_environment() -> bool:
    """Overwrite the variables where others see them, except those that stay; False if the system does not support it."""
    try:
        with open("/proc/self/stat", "rb") as stat, open("/proc/self/mem", "r+b", buffering=0) as memory:
            fields = stat.read().rpartition(b")")[2].split()
            start, end = int(fields[ENV_START]), int(fields[ENV_END])
            memory.seek(start)
            entries = memory.read(end - start).split(b"\0")
            names = [entry.partition(b"=")[0] for entry in entries]
            for name in dict.fromkeys(names):
                if name in os.environb and name and not is_kept(name):
                    os.environb[name] = os.environb.pop(name)  # the C library makes a copy elsewhere
            left = [
                entry if is_kept(name) else bytes(len(entry))
                for entry, name in zip(entries, names, strict=True)
            ]
            memory.seek(start)
            memory.write(b"\0".join(left))
        with open("/proc/self/environ", "rb") as seen:
            return seen.read() == b"\0".join(left)
    except (OSError, ValueError, IndexError):
        return False


def restart() -> None:
    """Execute a new image of this program; returns when that fails."""
    environ = os.environb if os.supports_bytes_environ else None
    fd = write_memory_file(environ) if environ is not None and sys.executable else None
    if environ is None or fd is None:
        return
    os.set_inheritable(fd, True)
    for image in (sys.executable, OWN_IMAGE):
        try:
            os.execve(image, [sys.executable, *sys.orig_argv[1:]], clean_environ(environ, fd))  # noqa: S606 no shell
        except OSError:
            continue  # it was removed, or is in a directory of another user
    os.close(fd)


def pass_environment(
    environ: Mapping[str, str],
) -> AbstractContextManager[tuple[dict[bytes, bytes], tuple[int, ...]]]:
    """The environment and the descriptors for another process of this program, which then need not be re-executed; the
    descriptors are closed afterwards."""
    from contextlib import contextmanager

    whole = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}

    @contextmanager
    def given() -> Iterator[tuple[dict[bytes, bytes], tuple[int, ...]]]:
        fd = write_memory_file(whole)
        try:
            yield (whole, ()) if fd is None else (clean_environ(whole, fd), (fd,))
        finally:
            if fd is not None:
                os.close(fd)

    return given()


def write_memory_file(environ: Mapping[bytes, bytes]) -> int | None:
    """Write the variables to a sealed memory file and return its descriptor; None if it is not supported."""
    if not hasattr(os, "memfd_create"):
        return None
    import fcntl

    made = -1
    try:
        made = os.memfd_create("environ", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(made, "wb", closefd=False) as file:
            file.write(b"\0".join(name + b"=" + value for name, value in environ.items()))
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals())
        return fcntl.fcntl(
            made, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD
        )  # never in place of a closed standard stream
    except (OSError, AttributeError):  # an interpreter may know the file and not the seals
        return None
    finally:
        if made >= 0:
            os.close(made)


def clean_environ(environ: Mapping[bytes, bytes], fd: int) -> dict[bytes, bytes]:
    """The clean environment, which names the descriptor of the whole one."""
    kept = {name: value for name, value in environ.items() if is_kept(name)}
    return {**kept, VARIABLE.encode(): b"%d" % fd}


def is_kept(name: bytes) -> bool:
    """Whether a variable stays in the visible environment."""
    return name.startswith(KEPT_PREFIX) or os.fsdecode(name) in KEPT


def seals() -> int:
    """The seals that make a memory file immutable."""
    import fcntl

    return fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def restore(given: str) -> bool:
    """Set the variables from the memory file and close it; False for an invalid descriptor."""
    import fcntl

    try:
        fd = int(given)
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) != seals():
            return False
        with open(fd, "rb") as file:
            file.seek(0)
            entries = file.read().split(b"\0")
    except (AttributeError, ValueError, OverflowError, OSError):
        return False
    for entry in entries:
        name, equals, value = entry.partition(b"=")
        if equals and name:  # a variable without a name can be given to a program, and not be set
            os.environb[name] = value
    return True


def forbid_dumps() -> None:
    """Prevent core dumps, tracing and reading of the memory by other processes of the user (Linux)."""
    if sys.platform != "linux":
        return
    import _ctypes  # a fifth of what its package takes to import

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is the program itself
    _ctypes.call_function(prctl, (PR_SET_DUMPABLE, 0, 0, 0, 0))
