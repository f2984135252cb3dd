"""A desk for each test, with the server in the background or without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[CliEnvironment]:
    """One user's machine with a server."""
    with CliEnvironment(tmp_path).serving() as desk:
        yield desk


@pytest.fixture
def alone(tmp_path: Path) -> CliEnvironment:
    """One user's machine without a server."""
    return CliEnvironment(tmp_path)
