"""Nothing a command starts outlives its call, whatever the command does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.shell.running import SOURCES
from tests.shell.test_crash import carrying

HERE = Path(__file__).parent
CORPUS = HERE / "hostile.jsonl"
ROOT = os.getuid() == 0
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
NAMESPACE = [
    *DIES_WITH_US,
    "unshare",
    *([] if ROOT else ["--user", "--map-root-user"]),
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
]
WITHOUT_GROUPS = ["sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; exec "$@"', "sh"]
NOBODY_ELSE = 60_000 + os.getpid() % 5_000  # a limit on processes counts those of the whole machine
ANOTHER_USER = ["setpriv", f"--reuid={NOBODY_ELSE}", f"--regid={NOBODY_ELSE}", "--clear-groups"]
READS_ALL = [
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
]  # the interpreter may be root's
MOST = 80  # processes of a bomb: each costs until it is killed
WITHIN_S = 300  # far more than it takes; the runner ends itself before


def namespace() -> list[str]:
    """How to start something in a process namespace of its own; empty where the system allows none."""
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    return NAMESPACE if allowed else []


def survivors(
    wrapper: list[str], folder: Path, corpus: Path = CORPUS, most: int = 200
) -> tuple[int, list[str]]:
    """Run the corpus, with at most so many processes a command; how many ran, and what was alive after any batch."""
    folder.chmod(0o777)
    runner = [sys.executable, "-B", str(HERE / "hostile_runner.py"), str(corpus), str(folder), str(most)]
    environment = {"PATH": os.defpath + ":/usr/local/bin", "PYTHONPATH": SOURCES, "HOME": str(folder)}
    done = subprocess.run(
        [*wrapper, *runner],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        cwd=folder,
    )
    batches = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"names"')]
    assert batches
    assert batches[-1]["names"] == ["shutdown"], (
        done.returncode,
        done.stderr[-2000:],
        done.stdout[-2000:],
    )
    for batch in batches:
        for name, result in zip(batch["names"], batch["results"], strict=False):
            assert result == "cancelled" or result.startswith("{"), (name, result)
    found = [f"after {batch['names']}: {line}" for batch in batches for line in batch["survivors"]]
    return sum(len(batch["results"]) for batch in batches), found


def test_the_corpus_has_two_hundred_different_commands() -> None:
    """Two hundred hostile commands means two hundred."""
    cases = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    assert len({(case["command"], case["end"]) for case in cases}) >= 200
    assert len({case["name"] for case in cases}) == len(cases)


@pytest.mark.slow
def test_no_survivor_of_two_hundred_hostile_commands(tmp_path: Path) -> None:
    """After exit, timeout or cancel nothing a command started is alive."""
    ran, found = survivors(namespace(), tmp_path)
    assert ran >= 200
    assert found == []


@pytest.mark.slow
def test_no_survivor_where_there_are_no_control_groups(tmp_path: Path) -> None:
    """The same without the kernel's groups: subreapers alone."""
    some = tmp_path / "some.jsonl"
    lines = CORPUS.read_text().splitlines(keepends=True)
    some.write_text(
        "".join(
            line
            for number, line in enumerate(lines)
            if number % 3 == 0 or '"alone": true' in line or "PPID" in line
        )
    )
    wrapper = namespace()
    ran, found = survivors([*wrapper, *WITHOUT_GROUPS] if wrapper else [], tmp_path, some)
    assert ran >= 80
    assert found == []


def bombs(folder: Path, names: str = "") -> Path:
    """The fork bombs of the corpus whose name has this in it."""
    some = folder / "bombs.jsonl"
    lines = CORPUS.read_text().splitlines(keepends=True)
    some.write_text("".join(line for line in lines if '"bomb": true' in line and names in line))
    return some


def another_user(*inside: str) -> list[str]:
    """How to start something without rights, in a process namespace where that can be had, after `inside`.

    What is to die with its parent forgets that when it becomes another user, so that is said again.
    """
    return [*namespace(), *inside, *ANOTHER_USER, *READS_ALL, *DIES_WITH_US] if ROOT else []


@pytest.mark.slow
def test_fork_bombs_end_for_a_user_without_rights(tmp_path: Path) -> None:
    """A fork bomb is stopped and every process of it is killed, under a limit on processes."""
    ran, found = survivors(another_user(), tmp_path, bombs(tmp_path), MOST)
    assert ran == 6
    assert found == []


@pytest.mark.slow
def test_fork_bombs_end_on_a_busy_machine(tmp_path: Path) -> None:
    """The same without control groups, on one processor that has other work: it takes longer, no more."""
    busy = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    loop = [*DIES_WITH_US, *busy, "sh", "-c", "while :; do :; done"]
    others = [subprocess.Popen(loop) for _ in range(2)]
    try:
        wrapper = another_user(*WITHOUT_GROUPS) if namespace() else another_user()
        ran, found = survivors([*busy, *wrapper], tmp_path, bombs(tmp_path, "session"), MOST)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert ran == 2
    assert found == []


def test_a_namespace_of_a_test_ends_with_the_test(tmp_path: Path) -> None:
    """A bomb in a namespace does not outlive what started it, though it became another user."""
    if not ROOT or not namespace():
        pytest.skip("only root becomes another user in a namespace")
    command = [*another_user(), "sh", "-c", f"touch {tmp_path}/up; sleep 3600.{os.getpid()} & sleep 3600"]
    tmp_path.chmod(0o777)
    started = subprocess.Popen(command)
    while not (tmp_path / "up").exists():
        time.sleep(0.01)
    started.kill()
    started.wait()
    for _ in range(6000):
        if not carrying(f"3600.{os.getpid()}"):
            return
        time.sleep(0.01)
    raise AssertionError(carrying(f"3600.{os.getpid()}"))
