"""Nothing a command starts outlives its call, whatever the command does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shell.running import SOURCES

HERE = Path(__file__).parent
CORPUS = HERE / "hostile.jsonl"
ROOT = os.getuid() == 0
NAMESPACE = [
    "unshare",
    *([] if ROOT else ["--user", "--map-root-user"]),
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
]
WITHOUT_GROUPS = ["sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; exec "$@"', "sh"]
ANOTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
READS_ALL = [
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
]  # the interpreter may be root's


def namespace() -> list[str]:
    """How to start something in a process namespace of its own; empty where the system allows none."""
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    return NAMESPACE if allowed else []


def survivors(wrapper: list[str], folder: Path, corpus: Path = CORPUS) -> tuple[int, list[str]]:
    """Run the corpus; how many commands ran, and what was alive after any batch."""
    folder.chmod(0o777)
    runner = [sys.executable, "-B", str(HERE / "hostile_runner.py"), str(corpus), str(folder), "200"]
    environment = {"PATH": os.defpath + ":/usr/local/bin", "PYTHONPATH": SOURCES, "HOME": str(folder)}
    done = subprocess.run(
        [*wrapper, *runner],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
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
        "".join(lines[::3] + [line for line in lines if '"alone": true' in line or "PPID" in line])
    )
    wrapper = namespace()
    ran, found = survivors([*wrapper, *WITHOUT_GROUPS] if wrapper else [], tmp_path, some)
    assert ran >= 80
    assert found == []


@pytest.mark.slow
def test_fork_bombs_end_for_a_user_without_rights(tmp_path: Path) -> None:
    """A fork bomb is stopped and every process of it is killed, under a limit on processes."""
    bombs = tmp_path / "bombs.jsonl"
    bombs.write_text(
        "".join(line for line in CORPUS.read_text().splitlines(keepends=True) if '"bomb": true' in line)
    )
    other = [*ANOTHER_USER, *READS_ALL] if ROOT else []
    inside = namespace() if ROOT else []
    ran, found = survivors([*inside, *other], tmp_path, bombs)
    assert ran == 6
    assert found == []
