"""A database that one process opens twice, while others come and go."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.storage.logs import begin

from jaato.protocol.events import SessionCreated, ToolsStatus, now
from jaato.storage.database import check_header
from jaato.storage.sqlite import SqliteStore

LOOK = """
import sys
from pathlib import Path
from jaato.storage.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
print(len(list(store.read("s1"))))
store.close()
"""


FOLD_FIRST_PAGE = """
import sys
with open(sys.argv[1], "r+b") as file:
    pages = (file.seek(0, 2) // 4096) + 1000
    file.seek(28)
    file.write(pages.to_bytes(4, "big"))
"""


MAKE_SLOWLY = """
import os, sqlite3, sys
content = open(sys.argv[1], "r+b")  # stays open: closing it would end the lock below
whole = content.read()
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
os.truncate(sys.argv[1], 4096)
print("begun", flush=True)
sys.stdin.readline()
os.pwrite(content.fileno(), whole, 0)
connection.execute("ROLLBACK")
"""


def look(path: Path) -> int:
    """How many events another process sees."""
    made = subprocess.run(
        [sys.executable, "-c", LOOK, str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(made.stdout)


def test_what_is_written_after_a_second_opening_is_kept(tmp_path: Path) -> None:
    """A store opened and closed beside another one of the same process takes no lock from it: a process that comes and
    goes removes no log that is still written."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    head = {"session_id": "s1", "agent_id": "a1"}
    store.create([SessionCreated(**head, seq=1, timestamp=now(), workspace="/w")])
    SqliteStore(path).close()
    assert look(path) == 1
    store.append([ToolsStatus(**head, seq=2, timestamp=now(), disabled=["x"])])
    assert look(path) == 2
    store.close()
    assert look(path) == 2


def test_a_store_is_opened_while_its_log_is_folded(tmp_path: Path) -> None:
    """Folding writes the first page before those that are added: the file is shorter than its header says meanwhile."""
    path = tmp_path / "jaato.db"
    store = SqliteStore(path)
    begin(store, "s1", 300)
    subprocess.run([sys.executable, "-c", FOLD_FIRST_PAGE, str(path)], check=True)
    before = look(path)
    other = SqliteStore(path)
    assert len(list(other.read("s1"))) == before > 0
    other.close()
    store.close()
    assert look(path) == before


def test_a_store_is_opened_while_another_process_makes_it(tmp_path: Path) -> None:
    """Its first page is written, the others are not yet: that is no foreign file, and opening waits for them."""
    path = tmp_path / "jaato.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:  # a new database has no write-ahead log yet
        connection.execute("PRAGMA journal_mode = DELETE")
    with subprocess.Popen(
        [sys.executable, "-c", MAKE_SLOWLY, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"begun\n"
        check_header(path)
        maker.stdin.write(b"\n")
        maker.stdin.close()
        store = SqliteStore(path)
        begin(store, "s1", 3)
        store.close()
    assert look(path) > 0
