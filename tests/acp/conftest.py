"""A desk for each test, with the server in the background or without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """One user's machine with a server."""
    with Desk(tmp_path).serving() as desk:
        yield desk


@pytest.fixture
def alone(tmp_path: Path) -> Desk:
    """One user's machine without a server."""
    return Desk(tmp_path)
