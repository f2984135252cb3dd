"""Full-text search over what was said and done."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.logs import begin, created, renamed, run, said

from jaato.errors import StoreError
from jaato.protocol.events import Event, ToolCallEnd
from jaato.protocol.messages import Text, ToolResult
from jaato.storage.search import index_path
from jaato.storage.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jaato.db")
    yield store
    store.close()


def ids(store: SqliteStore, query: str, workspace: str | None = None) -> list[str]:
    """The sessions found."""
    hits = store.search(query, workspace)
    assert hits.complete
    return [hit.row.id for hit in hits.found]


def gave(session_id: str, seq: int, text: str) -> Event:
    """A tool has given a text."""
    result = ToolResult("c1", "readFile", ok=True, content=[Text(text)])
    return ToolCallEnd(
        session_id=session_id,
        agent_id="a1",
        seq=seq,
        call_id="c1",
        tool="readFile",
        result=result,
        duration_s=0.1,
    )


def foreign(directory: Path) -> bytes:
    """A database of somebody else's."""
    with contextlib.closing(sqlite3.connect(directory / "foreign.db")) as connection:
        connection.executescript("CREATE TABLE x (y); PRAGMA user_version = 7")
    return (directory / "foreign.db").read_bytes()


def test_all_words_are_found_wherever_they_stand(store: SqliteStore) -> None:
    """Words of several events, names, results of tools; in any case and without accents; as beginnings; phrases in
    their order; the newest session first, of one workspace or all, with a line of where the words stand."""
    store.create(
        [
            created("s1", "/w", at="2026-01-01T00:00:00.000Z"),
            said("s1", 2, "Please fix the PARSER in src/parse_file.py"),
        ]
    )
    store.append([gave("s1", 3, "Größe überschritten: the café is closed")])
    store.create([created("s2", "/v", "the parser again"), said("s2", 2, "closed for good")])
    store.append([renamed("s2", 3, description="About a bicycle")])
    assert ids(store, "parser") == ["s2", "s1"]
    assert ids(store, "parser", "/w") == ["s1"]
    assert ids(store, "PARS cafe closed") == ["s1"]
    assert ids(store, "grosse") == []
    assert ids(store, "große") == ids(store, "Grosse groß".split()[1]) == ["s1"]
    assert ids(store, "parse_file.py") == ids(store, '"fix the parser"') == ["s1"]
    assert ids(store, '"the fix parser"') == []
    assert ids(store, "bicycle") == ["s2"]
    assert ids(store, "nothing parser") == []
    (hit,) = store.search("café").found
    assert (hit.seq, hit.snippet) == (3, "Größe überschritten: the café is closed")


def test_what_comes_later_is_found_too(store: SqliteStore) -> None:
    """Events after a search are found by the next one, whichever way the clock went; what another process writes too."""
    begin(store, "s1", 3)
    assert ids(store, "needle") == []
    store.append([said("s1", 4, "a needle", at="2001-01-01T00:00:00.000Z")])
    assert ids(store, "needle") == ["s1"]
    run(
        """
store = SqliteStore(Path(sys.argv[1]))
store.append([said("s1", 5, "a thimble")])
assert [hit.row.id for hit in store.search("thimble").found] == ["s1"]
store.close()
""",
        store.path,
    )
    assert ids(store, "thimble needle") == ["s1"]


def test_pages_follow_each_other(store: SqliteStore) -> None:
    """The cursor of the last row of a page leads to the next one."""
    for index in range(7):
        store.create(
            [
                created(f"s{index}", at=f"2026-01-01T00:00:0{index}.000Z"),
                said(f"s{index}", 2, "word", at=f"2026-01-01T00:00:0{index}.000Z"),
            ]
        )
    listed: list[str] = []
    before = None
    while page := store.search("word", limit=3, before=before).found:
        listed += [hit.row.id for hit in page]
        before = page[-1].row.cursor
    assert listed == [f"s{index}" for index in range(6, -1, -1)]


def test_a_deleted_session_is_not_found_and_leaves_no_words(store: SqliteStore) -> None:
    """After a session is deleted and the store tidied, no word of it alone is in the index."""
    store.create([created("s1"), said("s1", 2, "xylophone hello")])
    begin(store, "s2", 3)
    assert ids(store, "xylophone") == ["s1"]
    store.delete("s1")
    assert ids(store, "xylophone") == []
    assert ids(store, "hello") == ["s2"]
    store.vacuum()
    store.close()
    assert b"xylophone" not in index_path(store.path).read_bytes()


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '" OR *',
        "hello' OR 1=1 --",
        "hello AND (NOT NEAR(",
        "text : hello",
        "^hello*",
        "{text} : x",
        "hel\x00lo",
        "hello\udcff",
        "a" * 100_000,
        "hello " * 10_000,
        " ".join(f"w{n}" for n in range(5000)),
        "-hello +x ~y",
        "\u202ehello",
        "😀 hello",
    ],
)
def test_no_query_is_a_program(store: SqliteStore, query: str) -> None:
    """Whatever is typed is looked for as words, or refused as having none; nothing of it is an operator."""
    begin(store, "s1", 3)
    with contextlib.suppress(StoreError):
        assert store.search(query).complete
    assert ids(store, "hello") == ["s1"]


@pytest.mark.parametrize("query", ["", "   ", "!!! ...", '""', "😀"])
def test_a_query_without_a_word_is_refused(store: SqliteStore, query: str) -> None:
    """What has neither letter nor digit finds nothing, and says what to do."""
    with pytest.raises(StoreError, match="Say a word"):
        store.search(query)


def test_the_index_is_private_small_and_made_anew_when_it_is_broken(
    store: SqliteStore, tmp_path: Path
) -> None:
    """The index is 0600, does not hold the text, and is made again when it is damaged, gone, foreign or of another log."""
    begin(store, "s1", 200)
    store.append([said("s1", 201, "unrepeatable " + "some sentence that is said " * 4000)])
    assert ids(store, "unrepeatable") == ["s1"]
    place = index_path(store.path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    store.close()
    assert b"sentence that is said" not in place.read_bytes()
    whole = place.read_bytes()
    for harm in (b"garbage" * 1000, whole[:8192] + b"\xff" * 8192, whole[:100], b"", None, foreign(tmp_path)):
        place.unlink()
        if harm is not None:
            place.write_bytes(harm)
        again = SqliteStore(store.path)
        try:
            found = ids(again, "unrepeatable")
        except StoreError:
            found = ids(again, "unrepeatable")
        assert found == ["s1"]
        again.close()
    moved = store.path.with_name("other.db")
    other = SqliteStore(moved)
    begin(other, "t1", 3)
    other.close()
    store.path.write_bytes(moved.read_bytes())
    again = SqliteStore(store.path)
    assert ids(again, "unrepeatable") == []
    assert ids(again, "hello") == ["t1"]
    again.close()


def test_a_store_that_is_only_read_is_searched(store: SqliteStore) -> None:
    """A store opened for reading is searched, and nothing is left beside it."""
    begin(store, "s1", 3)
    store.close()
    reader = SqliteStore(store.path, read_only=True)
    assert ids(reader, "hello") == ["s1"]
    reader.close()
    assert not index_path(store.path).exists()


def test_damaged_events_do_not_hide_others(store: SqliteStore) -> None:
    """A record that cannot be read is passed over; deleting its session leaves nothing of it in the index."""
    begin(store, "s1", 5)
    begin(store, "s2", 5)
    assert ids(store, "hello") == ["s2", "s1"]
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE event SET data = x'00' WHERE position = (1 << 32) + 3")
    other.close()
    store.append([said("s1", 6, "needle")])
    assert ids(store, "needle") == ["s1"]
    store.delete("s1")
    assert ids(store, "hello") == ["s2"]


def test_a_long_log_is_taken_in_piece_by_piece(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes in only so much, says that there is more, and goes on the next time."""
    monkeypatch.setattr("jaato.storage.search.INDEX_BYTES", 20_000)
    for index in range(10):
        begin(store, f"s{index}")
        store.append([said(f"s{index}", 2, "word " * 2000)])
    seen, rounds = 0, 0
    while not (hits := store.search("word")).complete:
        assert len(hits.found) > seen
        seen, rounds = len(hits.found), rounds + 1
    assert (len(hits.found), rounds > 2) == (10, True)
