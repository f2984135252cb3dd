"""A database that one process opens twice, while others come and go."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.storage.logs import begin

from jaato.protocol.events import SessionCreated, ToolsStatus, now
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


END_AFTER_FIRST_PAGE = """
import resource
import signal
import sys
from pathlib import Path
from jaato.storage.sqlite import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
SqliteStore(Path(sys.argv[1]))
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


def test_a_store_whose_first_process_was_killed_is_opened(tmp_path: Path) -> None:
    """The first commit writes the first page before the others: a process that ends between them leaves a file that is
    shorter than its header says, as others see it while that process lives. The next one makes the store."""
    path = tmp_path / "jaato.db"
    made = subprocess.run([sys.executable, "-c", END_AFTER_FIRST_PAGE, str(path)], check=False)
    assert made.returncode == -signal.SIGXFSZ
    assert path.stat().st_size == 4096
    store = SqliteStore(path)
    assert not store.read_only
    begin(store, "s1", 3)
    store.close()
    assert look(path) == 3
