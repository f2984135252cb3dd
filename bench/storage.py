"""What the store costs: an append, a long log read back, a list of many sessions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.row import Row

from jaato.protocol.events import Event, MessageUser, SessionCreated
from jaato.protocol.messages import Message, Text
from jaato.storage.sqlite import SqliteStore

EVENTS = 10_000
SESSIONS = 10_000
ROUNDS = 5


def rows() -> list[Row]:
    """The figures of the store; CPU time of the whole process, the best of several rounds."""
    with tempfile.TemporaryDirectory() as directory:
        return [*log_rows(Path(directory) / "log"), *list_rows(Path(directory) / "list")]


def log_rows(directory: Path) -> Iterator[Row]:
    """One long session: its appends, singly and four at once, and reading it back."""
    with opened(directory) as store:
        store.hold("s1")
        store.create([created("s1")])
        first = batched(store, 2, 1)
        yield Row("append one event, durable against kill -9", first, "µs", 25, "a log of 10,000 events")
        four = batched(store, EVENTS + 2, 4)
        yield Row("append four events in one commit", four, "µs", None, "a log of 20,000 events")
        for index in range(200):
            store.create([created(f"other{index}")])
        after = batched(store, 2 * EVENTS + 2, 1)
        yield Row("append one event to a long log among many", after, "µs", 25, "20,000 events, 200 sessions")
    with opened(directory / "read") as store:
        store.hold("s1")
        store.create([created("s1")])
        batched(store, 2, 1)

    def read() -> None:
        with opened(directory / "read") as store:
            assert sum(1 for _ in store.read("s1")) == EVENTS + 1

    yield Row("open the store and read 10,000 events", best(read) * 1e3, "ms", 100, "whole log, decoded")


def list_rows(directory: Path) -> Iterator[Row]:
    """The first page of a store with very many sessions, and finding one by the beginning of its id."""
    with opened(directory) as store:
        for index in range(SESSIONS):
            store.create([created(f"s{index:05d}", f"/w{index % 10}")])
    with opened(directory) as store:

        def page() -> None:
            assert len(store.sessions()) == 50

        def here() -> None:
            assert len(store.sessions("/w3")) == 50

        def begun() -> None:
            with opened(directory) as fresh:
                assert len(fresh.sessions()) == 50

        yield Row("open the store and list", best(begun) * 1e3, "ms", 1000, "10,000 sessions")
        store.search("nothing")

        def search() -> None:
            assert store.search("workspace").complete

        yield Row("search, index at hand", best(search) * 1e3, "ms", None, "10,000 sessions")
        yield Row("list the newest 50 sessions", best(page) * 1e3, "ms", 50, "10,000 sessions made at once")
        yield Row("list those of one workspace", best(here) * 1e3, "ms", 50, "10,000 sessions, 10 workspaces")


@contextmanager
def opened(directory: Path) -> Iterator[SqliteStore]:
    """A store that is closed after the block."""
    store = SqliteStore(directory / "jaato.db")
    try:
        yield store
    finally:
        store.close()


def created(session_id: str, workspace: str = "/w") -> SessionCreated:
    """The first event of a log."""
    return SessionCreated(session_id=session_id, agent_id="a1", seq=1, workspace=workspace)


def said(seq: int) -> Event:
    """An event of some 400 bytes."""
    message = Message("user", [Text("some words of a user " * 10)])
    return MessageUser(session_id="s1", agent_id="a1", seq=seq, message=message, turn_id="t1")


def batched(store: SqliteStore, start: int, size: int) -> float:
    """Microseconds of CPU an append of `size` events takes: the best round of those that write 10,000."""
    measured = []
    per_round = EVENTS // ROUNDS
    for first in range(start, start + EVENTS, per_round):
        events = [said(seq) for seq in range(first, first + per_round)]
        batches = [events[index : index + size] for index in range(0, per_round, size)]
        begun = time.process_time()
        for batch in batches:
            store.append(batch)
        measured.append((time.process_time() - begun) / len(batches) * 1e6)
    return min(measured)


def best(work: Callable[[], None]) -> float:
    """CPU seconds of the quickest of several rounds."""
    measured = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        measured.append(time.process_time() - begun)
    return min(measured)


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name:45} {row.value:10.2f} {row.unit:3} {row.bound} {row.against}")
