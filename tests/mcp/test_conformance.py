"""The client scenarios of the public conformance suite, through `jaato mcp`, in both eras of the protocol."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.mcp.node import installed, node

from jaato.settings import environment

HERE = Path(__file__).parent
EXPECTED = tomllib.loads((HERE / "expected-failures.toml").read_text())
RESULT = re.compile(r"^([✓✗-]) (\S+): (.*)$", re.MULTILINE)
PATIENCE_S = 240.0
LEAST = {"2025-11-25": 25, "2026-07-28": 39}
"""How many scenarios each revision's run had when this was written; a suite that runs fewer has lost some."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("revision", sorted(EXPECTED))
def test_the_suite(player: Path, tmp_path: Path, revision: str) -> None:
    """Every client scenario of a revision passes but those that are listed, and those that are listed do not."""
    client = f"{sys.executable} -I -S {HERE / 'client.py'} {player}"
    suite = str(installed() / "conformance" / "dist" / "index.js")
    made = subprocess.run(
        [
            node(),
            suite,
            "client",
            "--command",
            client,
            "--requirements",
            revision,
            "--timeout",
            "90000",
            "--verbose",
        ],
        cwd=tmp_path,
        env={"PATH": environment()["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    results = {name: mark for mark, name, _ in RESULT.findall(made.stdout)}
    assert len(results) >= LEAST[revision], made.stdout[-4000:] + made.stderr[-4000:]
    failed = {name for name, mark in results.items() if mark != "✓"}
    details = made.stdout[made.stdout.rindex("✓ tools_call") if "✓ tools_call" in made.stdout else -4000 :]
    assert failed == set(EXPECTED[revision]), details
