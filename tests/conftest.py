"""What holds for every test: no network, no deadline by the clock, and nothing left behind."""

from __future__ import annotations

import compileall
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest
from tests.cli import warm
from tests.processes import children

ROOT = Path(__file__).parents[1]
SHORT_FILE_BYTES = 4_000
COLLECT_AFTER = 20_000, 20, 20
"""Objects made before garbage is looked for; the interpreter's own 700 take the tests a twentieth of their time."""

hypothesis.settings.register_profile(
    "house", database=None, deadline=None, print_blob=True, derandomize=True, max_examples=50
)
hypothesis.settings.register_profile("explore", database=None, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("JAATO_TEST_PROFILE", "house"))  # noqa: TID251 a test's own choice

# To rewrite the assertions of all modules takes a process 14 s: what one has rewritten the others read.
sys.dont_write_bytecode = False


def passed_over(_number: int, _frame: object) -> None:
    """A signal that the tests were started to ignore, as `nohup` does it: what they start shall not ignore it."""


for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, passed_over)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays: it need not be looked through for garbage thousands of times, nor now."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Compile what the processes of the tests import: they are some thousands, and write no bytecode themselves.

    While tests are collected there is no garbage worth looking for.
    """
    gc.disable()
    if not hasattr(config, "workerinput"):
        for place in ("src", "compat/src", "tests"):
            compileall.compile_dir(ROOT / place, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins to read the folders at a place of its own, that none rewrites what another has rewritten."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and collector.path == ROOT / "tests" and report.result:
        first = int(worker["workerid"].removeprefix("gw")) * len(report.result) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Every worker has the tests in the same order: slow files first, short ones last, that no worker ends long after
    the others; else files that wait beside files that compute."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    places = {
        path: (
            path not in slow,
            path.stat().st_size < SHORT_FILE_BYTES,
            crc32(str(path.relative_to(ROOT)).encode()),
            path,
        )
        for path in {item.path for item in items}
    }
    items.sort(key=lambda item: places[item.path])
    yield


def untracked() -> set[str]:
    """Files in the checkout that neither git nor its ignore rules know, and every `.jaato`; not in environments."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    own: set[str] = set()
    for place, folders, _ in os.walk(ROOT):
        own |= {f"{place}/{name}" for name in folders if name == ".jaato"}
        folders[:] = [name for name in folders if not name.startswith(".")]
    return {line[3:] for line in listed if line.startswith("??")} | own


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """After the last test no process of ours lives and no file was added to the checkout."""
    files, processes = untracked(), children(zombies=False)
    yield
    warm.HELD.close()
    gc.collect()  # what a test has dropped without closing ends with its finalizer
    until = time.monotonic() + 60
    while children(zombies=False) - processes and time.monotonic() < until:
        time.sleep(0.05)
    left = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(zombies=False) - processes}
    assert not left, f"processes left behind: {left}"
    added = untracked() - files
    assert not added, f"files left in the checkout: {added}"
