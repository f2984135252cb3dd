"""Which tests carry which `spec` marks, from a real collection by pytest."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
OPTION = "--spec-marks-to"


class Mark(NamedTuple):
    """One mark of one test; `node` is the test without its parameters, a test without a mark has empty fields."""

    node: str
    document: str = ""
    heading: str = ""
    requirement: str | None = None


COLLECTED: list[Mark] = []
"""The marks of this pytest run, when it collects everything."""


def marks_of(items: Iterable[pytest.Item]) -> list[Mark]:
    """The marks of collected tests, each once, file by file."""
    found: dict[Mark, None] = {}
    for item in sorted(items, key=lambda one: one.path):
        node = item.nodeid.partition("[")[0]
        marks = [Mark(node, *mark.args) for mark in item.iter_markers("spec")]
        found |= dict.fromkeys(marks or [Mark(node)])
    return list(found)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where this plugin writes what it saw."""
    parser.addoption(OPTION, dest="spec_marks_to")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the marks."""
    target = session.config.option.spec_marks_to
    if target:
        Path(target).write_text(json.dumps(marks_of(session.items)), encoding="utf-8")


def collect() -> list[Mark]:
    """The marks of all tests: those of this run if it collected everything, else from a run of its own."""
    if COLLECTED:
        return list(COLLECTED)
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "marks.json"
        command = [sys.executable, "-m", "pytest", "-p", "tests.spec.collect", f"{OPTION}={target}"]
        done = subprocess.run(
            [*command, "--collect-only", "-q", "tests"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode or not target.exists():  # without an extra, tests would be missing
            raise RuntimeError(f"The tests cannot be collected:\n{done.stdout}\n{done.stderr}")
        return [Mark(*row) for row in json.loads(target.read_text(encoding="utf-8"))]
