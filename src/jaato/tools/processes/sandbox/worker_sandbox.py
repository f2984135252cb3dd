"""A sandbox for jaato's own worker processes: they see programs and what they are given, nothing else."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jaato import version
from jaato.tools.call import CURRENT
from jaato.tools.filesystem.atomic import is_below
from jaato.tools.processes.sandbox.backends import BackendChoice, Bubblewrap, choose_backend
from jaato.tools.processes.sandbox.mount_plan import TMP
from jaato.tools.processes.warden.start import filter_file

PROGRAMS = "/usr /bin /sbin /lib /lib32 /lib64 /nix/store /gnu/store".split()
"""Directories of programs and their libraries."""
FILES = "/etc/ld.so.cache /etc/alternatives /etc/localtime".split()
"""Configuration that programs need to start, and for the local time."""
SYSTEM_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin"))
"""Where to find bubblewrap: helpers belong to no workspace, so no PATH of a session is used."""
DIRECTORY = "/directory"
"""The path of the working directory in the sandbox."""
PROBE_WITHIN_S = 10.0
SIGNALLED = 128
"""bubblewrap ends with this and the number of the signal that ended its program."""


class Start(NamedTuple):
    """The prefix of a helper's command line, empty without a sandbox, and the descriptors that it needs."""

    prefix: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


@contextmanager
def worker_sandbox(
    program: str,
    descriptors: Sequence[int] = (),
    *,
    reads: Sequence[str | Path] = (),
    writes: Sequence[str | Path] = (),
    directory: int | None = None,
    start: str = "/",
) -> Iterator[Start]:
    """Context that provides the sandbox of a helper: no network, no files but programs and what it `reads` and `writes`,
    the seccomp filter. The helper dies with the thread that started it, which must wait for it.

    It begins in `start`, or in `directory`, the descriptor of one that it may write. It works with `descriptors` as
    before, so none of them should be of a directory. Root in a sandbox may not open files of other users, so it is not
    confined with these.
    """
    prefix = probe_sandbox(get_backend())
    own = [] if directory is None else [directory]
    if not prefix or (os.geteuid() == 0 and not all(map(is_own, [*descriptors, *own, *reads, *writes]))):
        yield Start()
        return
    given = [*prefix]
    for place in (program, os.path.realpath(program)):
        given += [] if any(is_below(place, one) for one in list_visible()) else ["--ro-bind", place, place]
    for place in map(os.path.realpath, reads):
        given += ["--ro-bind", place, place]
    for place in map(os.path.realpath, writes):
        given += ["--bind", place, place]
    if directory is not None:
        given += ["--bind", f"/proc/self/fd/{directory}", DIRECTORY]
    given += ["--remount-ro", "/", "--chdir", start if directory is None else DIRECTORY]
    with filter_options() as (options, handed):
        yield Start((*given, *options, "--"), handed)


@contextmanager
def filter_options() -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The options of bubblewrap for the filter of system calls, and the descriptor that it is read from."""
    file = filter_file()
    try:
        yield ("--seccomp", str(file)), (file,)
    finally:
        os.close(file)


def get_backend() -> BackendChoice:
    """The back end chosen in the settings of the session whose call runs here, else `auto`."""
    call = CURRENT.get()
    sandbox = call.services.get("sandbox") if call is not None else None
    return sandbox.choice if sandbox is not None else "auto"


def is_own(place: int | str | Path) -> bool:
    """Whether a file is this user's."""
    return os.stat(place).st_uid == os.geteuid()


def subprocess_code(code: int, prefix: Sequence[str]) -> int:
    """The exit code as `subprocess` reports it without a sandbox: negative if a signal ended the helper."""
    return SIGNALLED - code if prefix and code > SIGNALLED else code


@functools.cache
def probe_sandbox(wanted: BackendChoice) -> tuple[str, ...]:
    """The command line of the helpers' sandbox, tested once by running this Python in it; empty if that fails, and for other
    back ends than bubblewrap, the only one that is a program."""
    found = choose_backend(wanted, {"PATH": SYSTEM_PATH})
    if not isinstance(found, Bubblewrap):
        return ()
    prefix = arguments(found)
    test = [sys.executable, "-I", "-S", "-c", "import json, resource"]
    try:
        with filter_options() as (options, handed):
            done = subprocess.run(
                [*prefix, "--remount-ro", "/", *options, "--", *test], pass_fds=handed, env={}, cwd="/", check=False,
                timeout=PROBE_WITHIN_S, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if done.returncode == 0 else ()


def arguments(found: Bubblewrap) -> tuple[str, ...]:
    """The command line of the sandbox, up to what one helper needs."""
    given = [found.program, *found.isolation, "--unshare-net", "--die-with-parent", "--tmpfs", TMP]
    for place in list_visible():
        if os.path.islink(place) and place in PROGRAMS:
            given += ["--symlink", os.readlink(place), place]
        else:
            given += ["--ro-bind", place, place]
    given += ["--dev", "/dev", "--proc", "/proc"]
    given += ["--ro-bind", "/proc/sys", "/proc/sys"] if os.geteuid() == 0 else []
    return tuple(given)


@functools.cache
def list_visible() -> tuple[str, ...]:
    """The directories that a helper sees: programs, this Python and its import path; none below another."""
    python = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        sys.base_exec_prefix,
        os.path.dirname(sys.executable),
    ]
    python += [os.path.dirname(os.path.realpath(sys.executable)), str(Path(version.__file__).parent.parent)]
    python += [place for place in sys.path if os.path.isabs(place)]
    wanted = [*PROGRAMS, *FILES, *python, *map(os.path.realpath, python)]
    there = {place.rstrip("/") for place in wanted if place.strip("/") and os.path.exists(place)}
    home = os.path.realpath(os.path.expanduser("~"))
    there -= {
        one for one in there if is_below(home, one) or one == TMP
    }  # whole, they hold more than programs
    return tuple(sorted(one for one in there if not any(is_below(one, other) for other in there - {one})))
