"""The client scenarios of the public conformance suite, through `jaato mcp`, in both eras of the protocol."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.mcp.node import MANIFEST, installed, node

from jaato.settings import environment

HERE = Path(__file__).parent
EXPECTED = tomllib.loads((HERE / "expected-failures.toml").read_text())
RESULT = re.compile(r"^([✓✗-]) (\S+): (.*)$", re.MULTILINE)
PATIENCE_S = 240.0
EARLY = {"elicitation-sep1034-client-defaults"}
LEAST = {"2025-11-25": 25, "2026-07-28": 39}
"""How many scenarios each revision's run had when this was written; a suite that runs fewer has lost some."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outputs(player: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the suite prints for each revision; both run at the same time, since they mostly wait. Where
    only the scenario whose server may ask before it is heard fails besides, its revision is played once more."""
    found = played(list(EXPECTED), player, tmp_path_factory)
    again = [revision for revision, out in found.items() if failures(out) ^ set(EXPECTED[revision]) == EARLY]
    return {**found, **(played(again, player, tmp_path_factory) if again else {})}


def failures(out: str) -> set[str]:
    """The scenarios that have failed."""
    return {name for mark, name, _ in RESULT.findall(out) if mark != "✓"}


def played(revisions: list[str], player: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the suite prints."""
    client = f"{sys.executable} -I -S {HERE / 'client.py'} {player}"
    suite = [
        node(),
        str(installed(MANIFEST) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"),
        "client",
        "--verbose",
    ]
    started = {}
    for revision in revisions:
        folder = tmp_path_factory.mktemp("suite")
        started[revision] = subprocess.Popen(
            [*suite, "--command", client, "--requirements", revision, "--timeout", "90000"],
            cwd=folder,
            env={"PATH": environment()["PATH"], "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    found = {}
    for revision, process in started.items():
        with process:
            try:
                found[revision], _ = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
    return found


@pytest.mark.parametrize("revision", sorted(EXPECTED))
def test_the_suite(outputs: dict[str, str], revision: str) -> None:
    """Every client scenario of a revision passes but those that are listed, and those that are listed do not."""
    out = outputs[revision]
    results = {name: mark for mark, name, _ in RESULT.findall(out)}
    assert len(results) >= LEAST[revision], out[-4000:]
    assert failures(out) == set(EXPECTED[revision]), out[
        out.rindex("✓ tools_call") if "✓ tools_call" in out else -4000 :
    ]
