"""A desk for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """One user's machine."""
    return Desk(tmp_path)
