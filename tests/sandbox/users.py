"""How to run a program of the tests as another user."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import pytest

ROOT = Path(__file__).parents[2]
OTHER = 65534
ROOT_USER = os.geteuid() == 0
USERS = ("this user", "another user") if ROOT_USER else ("this user",)
FIRST_USER = [USERS[0], *(pytest.param(one, marks=pytest.mark.system) for one in USERS[1:])]
"""For what takes long: the others when `make test-system` plays everything."""
BECOME_OTHER = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "--"]


def as_user(user: str) -> list[str]:
    """What goes in front of a command line; it shows the interpreter and the checkout where they are closed to others."""
    if user == "this user":
        return []
    needed = dict.fromkeys(os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, ROOT))
    hidden = {path: closed(path) for path in needed if closed(path)}
    if not hidden:
        return BECOME_OTHER
    lines = ["set -e", "kept=$(mktemp -d)"]
    for number, path in enumerate(hidden):
        lines.append(f'mkdir "$kept/{number}"; mount --bind {quote(path)} "$kept/{number}"')
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {quote(top)}" for top in dict.fromkeys(hidden.values())]
    for number, path in enumerate(hidden):
        lines.append(f'mkdir -p {quote(path)}; mount --bind "$kept/{number}" {quote(path)}')
        lines.append(f'umount "$kept/{number}"')
    lines += ['rmdir "$kept"/* "$kept"', 'exec "$@"']
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *BECOME_OTHER]


@functools.cache
def as_another_user() -> list[str]:
    """What goes in front of a command line of another user; skips the test where none can start this Python."""
    if not ROOT_USER:
        pytest.skip("only root can become another user")
    command = as_user("another user")
    tried = subprocess.run(
        [*command, sys.executable, "-c", ""], cwd="/", capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"another user cannot start this Python: {tried.stderr.strip()}")
    return command


def closed(path: str) -> str:
    """The first directory above a path that others may not enter; empty if there is none."""
    for above in reversed(Path(path).parents):
        if not above.stat().st_mode & 0o001:
            return str(above)
    return ""


@contextmanager
def ground(user: str) -> Iterator[Path]:
    """A directory for a user to work in, which the sandbox shows: not below `/tmp`.

    Where root prepares it, it has programs with the rights of root that everybody may run.
    """
    place = Path(tempfile.mkdtemp(prefix="jaato-test-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        if user == "another user":
            privileged = place / "privileged"
            privileged.mkdir()
            for name, program in (("setuid", "id"), ("capable", "cat")):
                shutil.copy(shutil.which(program) or "", privileged / name)
            (privileged / "setuid").chmod(0o4755)
            (privileged / "secret").write_text("for root alone")
            (privileged / "secret").chmod(0o600)
            rights = struct.pack("<5I", 0x02000001, 1 << 1, 0, 0, 0)  # CAP_DAC_OVERRIDE, effective
            os.setxattr(privileged / "capable", "security.capability", rights)
            os.chown(place, OTHER, OTHER)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def output_as(
    user: str,
    words: list[str],
    place: Path,
    within_s: float = 240.0,
    environ: dict[str, str] | None = None,
    around: Sequence[str] = (),
) -> str:
    """What a Python program prints that a user runs, with more variables, within what another program makes."""
    done = subprocess.run(
        [*around, *as_user(user), sys.executable, "-B", *words],
        env={
            "PATH": os.defpath,
            "HOME": str(place),
            "TMPDIR": str(place),
            "PYTHONPATH": os.pathsep.join(paths()),
            **(environ or {}),
        },
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    return done.stdout


def paths() -> list[str]:
    """Where this repository's packages are."""
    return [str(ROOT), str(ROOT / "src")]
