"""Which back end is used, and what is said where none is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.warm import warm
from tests.sandbox.running import ENVIRON, WORKING, runner
from tests.sandbox.users import paths

from jaato.protocol.specs import SandboxAccess
from jaato.tools.processes.sandbox.backends import Bubblewrap, choose_backend, explain_unavailable, probe
from jaato.tools.processes.sandbox.sandbox import Sandbox, SandboxUnavailable

PROBES = """
import json, os
from jaato.tools.processes.sandbox.backends import NAMES, probe
found = [probe(name, dict(os.environ)) for name in NAMES]
print(json.dumps({one.name: "" if one.backend else one.why for one in found}))
"""
IN_LANDLOCK = """
import os, sys
from jaato.tools.processes.warden import namespaces
namespaces.restrict_paths(["/tmp", "/dev", "/proc"])
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
needs_both = pytest.mark.skipif(len(WORKING) < 2, reason="both back ends have to work on this machine")


def found_in(wrapper: list[str], words: tuple[str, ...] = ()) -> dict[str, str]:
    """Why each back end does not work where a wrapper puts jaato; empty for one that does."""
    done = subprocess.run(
        [*wrapper, sys.executable, "-B", *words, "-c", PROBES],
        env={**ENVIRON, "PYTHONPATH": os.pathsep.join(paths())},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def script(path: Path, text: str) -> None:
    """A program called bwrap in a directory."""
    path.mkdir(exist_ok=True)
    (path / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
    (path / "bwrap").chmod(0o755)


def bundled() -> str:
    """A bubblewrap that works."""
    found = choose_backend("bubblewrap", ENVIRON)
    assert isinstance(found, Bubblewrap)
    return found.program


@needs_both
def test_without_user_namespaces_both_say_so() -> None:
    """Where user namespaces are turned off, no back end works, and each says how to turn them on."""
    wrapper = ["unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "sh"]
    found = found_in(wrapper)
    assert all("sysctl user.max_user_namespaces=" in why for why in found.values())


@needs_both
def test_where_proc_is_covered_both_say_so() -> None:
    """In a container that covers parts of /proc no new one can be mounted, and each says what to start it with."""
    wrapper = ["unshare", "-Urmpf", "sh", "-c", 'mount -t tmpfs none /proc/irq; exec "$@"', "sh"]
    found = found_in(wrapper)
    assert all("systempaths=unconfined" in why for why in found.values())


@needs_both
def test_inside_of_landlock_both_say_so() -> None:
    """A process that Landlock restricts mounts nothing: no back end works there, and each says why."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", IN_LANDLOCK, "-B", "-c", PROBES],
        env={**ENVIRON, "PYTHONPATH": os.pathsep.join(paths())},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert all("another sandbox around jaato" in why for why in json.loads(done.stdout).values())


@needs_both
@pytest.mark.parametrize("backend", WORKING)
def test_inside_of_our_own_sandbox_both_say_so(backend: str, tmp_path: Path) -> None:
    """A jaato that runs in a sandbox of jaato's has none of its own, and says that it is in one."""
    with runner(tmp_path, backend, "read-only") as one:
        python = os.path.realpath(sys.executable)
        one.run(["env", f"PYTHONPATH={os.pathsep.join([*paths(), *sys.path])}", python, "-B", "-c", PROBES])
        found = json.loads(one.output.splitlines()[-1])
    assert all("another sandbox around jaato" in why for why in found.values())


@needs_both
def test_the_systems_bubblewrap_goes_first(tmp_path: Path) -> None:
    """A bwrap on the PATH is preferred; one that does not work is passed over; one of the workspace is never run."""
    works, fails, mine = tmp_path / "works", tmp_path / "fails", tmp_path / "workspace" / "bin"
    mine.parent.mkdir()
    script(works, f'exec {bundled()} "$@"')
    script(fails, "echo 'bwrap: it is broken' >&2; exit 1")
    script(mine, f'touch {tmp_path}/ran; exec {bundled()} "$@"')
    found = choose_backend("auto", {"PATH": str(works)})
    assert found is not None
    assert found.program == str(works / "bwrap")
    found = choose_backend("auto", {"PATH": f"{fails}:{works}"})
    assert found is not None
    assert found.program == str(works / "bwrap")
    choose_backend("auto", {"PATH": str(mine)}, (mine.parent,))
    assert not (tmp_path / "ran").exists()


@needs_both
def test_an_older_bubblewrap_is_used_without_what_it_lacks(tmp_path: Path) -> None:
    """A bwrap that does not know --disable-userns confines without it; nested namespaces are refused all the same."""
    script(
        tmp_path / "old",
        'for one; do [ "$one" = --disable-userns ] && { echo "bwrap: Unknown option $one" >&2; exit 1; }; done\n'
        f'exec {bundled()} "$@"',
    )
    found = choose_backend("bubblewrap", {"PATH": str(tmp_path / "old")})
    assert isinstance(found, Bubblewrap)
    assert "--disable-userns" not in found.isolation
    assert found.program == str(tmp_path / "old" / "bwrap")
    with runner(tmp_path, "bubblewrap", "read-only") as one:
        one.sandbox._environ = {**ENVIRON, "PATH": str(tmp_path / "old")}
        one.run("unshare -Ur true && echo nested")
        assert "nested" not in one.output
        assert "unshare" in one.output


@needs_both
def test_landlock_is_next() -> None:
    """Each back end can be chosen by name, and bubblewrap goes first."""
    names = [
        getattr(choose_backend(choice, ENVIRON), "name", None)
        for choice in ("auto", "bubblewrap", "landlock", "none")
    ]
    assert names == ["bubblewrap", "bubblewrap", "landlock", None]


def test_without_a_sandbox_nothing_is_started(tmp_path: Path) -> None:
    """Where the sandbox is turned off, a confined command fails with the reason; it is never run without."""
    sandbox = Sandbox(tmp_path, environ=ENVIRON, backend="none")
    assert sandbox.profiles == frozenset()
    with pytest.raises(SandboxUnavailable, match="sandbox_backend is none"):
        anyio.run(lambda: sandbox.confine(SandboxAccess("read-only"), tmp_path))
    assert "none" in explain_unavailable("none", ENVIRON)


@pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
def test_doctor_shows_the_sandbox(tmp_path: Path) -> None:
    """`jaato doctor` names the back end, its version, its program and its profiles, and says why there is none."""

    def finding(choice: str) -> dict[str, Any]:
        environ = {
            **ENVIRON,
            "PYTHONPATH": os.pathsep.join(paths()),
            "HOME": str(tmp_path),
            "JAATO_SANDBOX_BACKEND": choice,
        }
        done = warm().run(["doctor", "--json"], data=None, cwd=tmp_path, env=environ, timeout_s=60)
        return next(one for one in json.loads(done.stdout)["checks"] if one["name"] == "sandbox")

    used = probe(WORKING[0], ENVIRON).backend
    assert used is not None
    shown = finding("auto")
    assert shown["grade"] == "ok"
    assert f"{used.name} {used.version}" in shown["text"]
    assert used.program in shown["text"]
    assert "read-only and workspace-write" in shown["text"]
    assert "landlock: " in shown["text"]
    off = finding("none")
    assert (off["grade"], "sandbox_backend is none" in off["text"]) == ("warn", True)
