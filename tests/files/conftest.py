"""The file tools for every test that asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The tools on an empty workspace."""
    return Desk(tmp_path / "w")
