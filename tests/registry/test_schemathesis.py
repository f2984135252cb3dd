"""Our own OpenAPI document, held against what is served by a stranger who believes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract import showing
from tests.contract.test_contract import registry

EXAMPLES = 2
"""Cases for each operation and phase; `make fuzz` takes more."""
CONFIG = Path(__file__).parent / "schemathesis.toml"


def found(where: Path, url: str, examples: int, *arguments: str, seed: int = 1) -> str:
    """What Schemathesis says of a registry, in all its checks; empty when it finds nothing."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    command += [f"{url}/openapi.json", "-n", str(examples), "--seed", str(seed), "--checks", "all"]
    command += ["--no-color", "--suppress-health-check", "all", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "keyed",
    [pytest.param(False, id="open", marks=pytest.mark.system), pytest.param(True, id="with a token")],
)
def test_a_stranger_finds_nothing_against_the_document(tmp_path: Path, keyed: bool) -> None:
    """Whatever is sent that fits the document, or nearly does, is answered as the document says; also where a token is
    needed, and by none where it is not given."""
    arguments = ["--domains", f"core,{showing.__file__}", "--deny", "locked", *(["--token"] if keyed else [])]
    with registry(tmp_path, *arguments) as said:
        where, _, path = said.partition(" at ")[2].partition("; the token is in ")
        token = ["-H", f"Authorization: Bearer {Path(path).read_text().strip()}"] if keyed else []
        phases = [] if keyed else ["--phases", "coverage", "--exclude-method", "HEAD"]
        assert found(tmp_path, where, EXAMPLES, *token, *phases) == ""
