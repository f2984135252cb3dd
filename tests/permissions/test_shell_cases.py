"""Hostile and benign shell commands, each with what it may reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import make_workspace, reach

CASES = [json.loads(line) for line in Path(__file__).with_name("shell_cases.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all cases: nothing is run in it."""
    return make_workspace(tmp_path_factory.mktemp("cases"))


@pytest.mark.spec("C4", "Permissions")
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['command'][:40]!a} {','.join(case['grants'])[:20]}"
)
def test_command(case: dict[str, Any], workspace: Path) -> None:
    """A command may write in the workspace exactly when every part of it is covered by a grant; else it can only read."""
    assert reach(case["command"], workspace, case["grants"]) == case["reach"]


def test_there_are_enough_cases() -> None:
    """At least three hundred commands, most of them hostile, two hundred of them beside a grant."""
    assert len(CASES) >= 300
    assert sum(case["reach"] == "read-only" for case in CASES) >= 200
    assert sum(bool(case["grants"]) for case in CASES) >= 200
