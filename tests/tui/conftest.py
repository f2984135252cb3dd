"""A home and a workspace for each test of the full-screen client."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty workspace; everything else of the user is beside it."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "NO_COLOR",
        "ACCESSIBLE",
        "JAATO_PROVIDER",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAATO_BACKGROUND_AFTER_S", "600")  # calls that a test holds open stay in the turn
    with tempfile.TemporaryDirectory(prefix="jaato-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield work
