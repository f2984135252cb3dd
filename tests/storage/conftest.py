"""Stores as the tests of the storage use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin

from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two sessions with ten events each, closed."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    begin(store, "s1", 10)
    begin(store, "s2", 10)
    store.close()
    return path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """An empty store."""
    store = SqliteStore(tmp_path / "state" / "jaato.db")
    yield store
    store.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SqliteStore]:
    """Another store, to import into."""
    store = SqliteStore(tmp_path / "other" / "jaato.db")
    yield store
    store.close()
