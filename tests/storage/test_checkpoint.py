"""What a store keeps open of its database."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.storage.logs import begin

from jaato.storage.sqlite import SqliteStore


def held(path: Path) -> int:
    """How many descriptors of a file are open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}") == str(path)
        except OSError:
            continue
    return found


def test_however_much_is_removed_no_descriptor_is_left_of_it(tmp_path: Path) -> None:
    """SQLite keeps the descriptor of a connection that is closed beside another: the one that folds stays open instead."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    try:
        for number in range(12):
            begin(store, f"s{number}", 3)
        store.delete("s0")
        before = held(path)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(store.delete, [f"s{number}" for number in range(1, 12)]))
        assert held(path) == before == 2
    finally:
        store.close()
    assert held(path) == 0
    assert not path.with_name("jaato.db-wal").exists()
