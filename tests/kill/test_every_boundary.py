"""A daemon that dies by SIGKILL anywhere: nothing lost, nothing twice, and the session goes on. All points: `make kill`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest
from tests.kill.__main__ import again
from tests.kill.every import Deaths, passages

POINTS = 8


@pytest.mark.slow
def test_killed_at_any_boundary_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    """A real daemon is killed before a commit, after it, after its event was shown, before and after an effect, between two
    words of the model; another takes its place, and the client, which comes back by itself, goes through the rest of the
    script. Every event it was shown is in the log, once and as it was shown; every message it sent is there once; every
    effect has happened at most once, and exactly once where its result says so; nothing is left open."""
    seed = random.randrange(1 << 32)
    choose = random.Random(seed)

    def spread(boundaries: int) -> Iterable[Deaths]:
        for number in range(POINTS):
            point = 1 + int((number + choose.random()) * boundaries / POINTS)
            yield again(point) if number % 4 == 0 else (point,)

    report = anyio.run(passages, tmp_path, spread)
    assert not report.wrong, f"seed {seed}: {report.wrong}; see `python -m tests.kill --only`"
    assert report.events >= 300
    assert report.passages == POINTS + 1
    assert report.killed >= POINTS - 1, "the last boundary may not be reached"
