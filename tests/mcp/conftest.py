"""What tests of MCP share: a process that runs `jaato` often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mcp.player import playing


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that waits for commands, until the last test has ended."""
    with playing(tmp_path_factory.mktemp("player")) as path:
        yield path
