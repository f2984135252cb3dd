"""A machine of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mcp_server.serving import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    """An empty home and workspace."""
    return House(tmp_path)
