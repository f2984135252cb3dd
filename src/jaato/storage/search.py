"""Full-text search of sessions: an FTS5 index in a file of its own, brought up to date by each search.

The index holds words and places, no text. It can be deleted at any time, and is made anew where it does not fit the log."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaato.abc.store import Damaged, Hit, Hits, SessionRow
from jaato.errors import StoreError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.events import (
    Event,
    MessageModel,
    MessageUser,
    MidTurnQueued,
    SessionCreated,
    SessionUpdated,
    ToolCallEnd,
)
from jaato.protocol.messages import Media, Message, Refusal, Text, ToolCall
from jaato.storage.database import BUSY_TIMEOUT_S, connect, open_to_read
from jaato.storage.errors import database_error
from jaato.storage.event_table import decode_event_row, rows_after
from jaato.storage.private_files import check_own_file, create_private
from jaato.storage.schema import SEQ_BITS, STEPS, statements, version_of
from jaato.storage.session_table import list_sessions
from jaato.tools.call import replace_surrogates
from jaato.tools.invisible_text import printable_line

VERSION = 1
"""Goes up whenever `text_of` gives other words: an index of other words is made anew."""
MESSAGE_CHARS = 200_000
RESULT_CHARS = 4_000
ARGUMENT_CHARS = 1_000
MAX_ARGUMENTS = 50
MAX_QUERY_CHARS = 1_000
MAX_WORDS = 16
MAX_WORD_CHARS = 100
PREFIX_CHARS = 3
"""A word of so many characters is found as the beginning of a longer one, too."""
SNIPPET_CHARS = 160
BEFORE_CHARS = 50
QUOTED = lazy_pattern(r'"([^"]*)"|(\S+)')


def text_of(event: Event) -> str:
    """The text of an event that is indexed: names, messages, arguments of calls and the beginning of their results."""
    match event:
        case SessionCreated(name=str(name)):
            return name
        case SessionUpdated():
            return "\n".join([text for text in (event.name, event.description) if text])
        case MessageUser() | MessageModel() | MidTurnQueued():
            return text_of_message(event.message)[:MESSAGE_CHARS]
        case ToolCallEnd(result=result):
            texts = result.texts
            return "\n".join([*texts, result.error.message if result.error else ""])[:RESULT_CHARS]
    return ""


def text_of_message(message: Message) -> str:
    """The words of a message, calls and the names of attachments included."""
    found: list[str] = []
    for part in message.parts:
        match part:
            case Text() | Refusal():
                found.append(part.text)
            case ToolCall():
                found.append(f"{part.name} {' '.join(text_arguments(part.arguments))}")
            case Media(name=str(name)):
                found.append(name)
    return "\n".join(found)


def text_arguments(arguments: dict[str, Any]) -> list[str]:
    """The texts among arguments."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return [text[:ARGUMENT_CHARS] for text in texts[:MAX_ARGUMENTS]]


def terms_of(query: str) -> list[str]:
    """What a query asks for, as phrases for FTS5 that hold no operator of its language; empty for nothing to look for.

    Each word must be there, also as the beginning of a longer one; in double quotes, words in this order.
    """
    text = replace_surrogates(query[:MAX_QUERY_CHARS])
    terms: dict[str, None] = {}
    for quoted, word in QUOTED.findall(text):
        wanted = " ".join(keep_words(quoted or word).split())[:MAX_WORD_CHARS]
        if any(character.isalnum() for character in wanted):
            beginning = "" if quoted or len(wanted) < PREFIX_CHARS else " *"
            terms[f'"{wanted}"{beginning}'] = None
    return list(terms)[:MAX_WORDS]


def keep_words(text: str) -> str:
    """A text with nothing but letters, digits and marks in it; a blank for all else."""
    return "".join([sign if unicodedata.category(sign)[0] in "LNM" else " " for sign in text])


def snippet(text: str, terms: list[str]) -> str:
    """A line of the text around the first place where one of the terms stands."""
    words = [term.strip('" *').split()[0] for term in terms]
    shown = printable_line(text)
    at = -1
    folded = shown.casefold()
    for word in words:
        found = re.search(rf"(?<!\w){re.escape(word.casefold())}", folded)
        if found and (at < 0 or found.start() < at):
            at = found.start()
    begin = max(0, min(at, len(shown)) - BEFORE_CHARS)
    cut = shown[begin : begin + SNIPPET_CHARS]
    return f"{'…' if begin else ''}{cut}{'…' if begin + SNIPPET_CHARS < len(shown) else ''}"


TABLES = """
CREATE TABLE indexed (session INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE VIRTUAL TABLE word USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
"""


def index_path(path: Path) -> Path:
    """Where the index of the store at `path` is."""
    return path.with_name(f"{path.stem}.search.db")


def open_index(place: Path | None) -> sqlite3.Connection:
    """The index at `place`, made if it is missing, damaged or of another version; without a place a passing one."""
    if place is None:
        connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        create_tables(connection)
        return connection
    check_own_file(place)
    create_private(place)
    for _ in range(2):
        connection = connect(place, "mode=rw")
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
            if version_of(connection) == VERSION:
                connection.execute("SELECT 1 FROM indexed, word LIMIT 1").fetchone()
                return connection
            if version_of(connection) == 0:
                create_tables(connection)
                return connection
        except sqlite3.Error as error:
            if not is_index_damage(error):
                connection.close()
                raise
        connection.close()
        remove_index(place)
        create_private(place)
    raise StoreError(f"The index {place} is damaged; remove it, and it is made anew.")


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of an index; two processes may want to make them at once."""
    with transaction(connection):
        if version_of(connection) == 0:
            for statement in statements(TABLES):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def clear_index(index: sqlite3.Connection) -> None:
    """Forget everything, in a transaction."""
    index.execute("INSERT INTO word (word) VALUES ('delete-all')")
    index.execute("DELETE FROM indexed")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that excludes other writers: the whole block or nothing."""
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_index_damage(error: sqlite3.Error) -> bool:
    """Whether the file is broken, or not what it should be."""
    codes = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


def remove_index(place: Path) -> None:
    """Remove an index with all that belongs to it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


INDEX_BYTES = 32 << 20
"""How much of the log one search takes into the index; the rest is for the next one."""
BATCH_BYTES = 1 << 20
PATIENCE_S = 10.0
STEPS_BETWEEN_LOOKS = 100_000

LOGS = (
    f"SELECT number, id, (SELECT position FROM event WHERE position > number << {SEQ_BITS} "  # noqa: S608 a number of ours
    f"AND position < (number + 1) << {SEQ_BITS} ORDER BY position DESC LIMIT 1) "
    "FROM session ORDER BY touched_at DESC"
)
ADD = "INSERT INTO word (rowid, text) VALUES (?, ?)"
REMOVE = "INSERT INTO word (word, rowid, text) VALUES ('delete', ?, ?)"
REACHED = "SELECT seq FROM indexed WHERE session = ?"
NOTE = "INSERT OR REPLACE INTO indexed VALUES (?, ?, ?)"
SESSIONS = f"SELECT rowid >> {SEQ_BITS} FROM word WHERE word MATCH ?"  # noqa: S608 a number of ours
PLACE = "SELECT rowid FROM word WHERE word MATCH ? AND rowid > ? AND rowid < ? ORDER BY rowid DESC LIMIT 1"


class SearchIndex:
    """The index of one store; `path` is the store's, `read_only` says that the index must be made somewhere else."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._place = None if read_only else index_path(path)
        self._lock = threading.Lock()
        self._index: sqlite3.Connection | None = None
        self._log: sqlite3.Connection | None = None

    def search(self, query: str, workspace: str | None, limit: int, before: str | None) -> Hits:
        """The sessions that have all words of a query, newest first. Raises `StoreError`, also for a search too wide."""
        terms = terms_of(query)
        if not terms:
            raise StoreError("Say a word to search for: letters or digits.")
        with self._open() as (index, log):
            complete = self._catch_up(index, log, INDEX_BYTES)
            deadline = time.monotonic() + PATIENCE_S
            index.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
            try:
                having = " INTERSECT ".join([SESSIONS] * len(terms))
                numbers = {row[0] for row in index.execute(having, terms)}
                rows = list_sessions(log, workspace, limit, before, numbers)
                hits = [hit for row in rows if (hit := find_hit(index, log, row, terms))]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise StoreError("That is found in too many places; say more, or longer, words.") from error
            finally:
                index.set_progress_handler(None, 0)
        return Hits(hits, complete)

    def forget(self, session_id: str) -> None:
        """Take the words of a session out of the index, before its log goes. Raises `StoreError`."""
        if self._place is None or not self._place.exists():
            return
        with self._open() as (index, log):
            row = index.execute("SELECT session, seq FROM indexed WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                return
            texts = list(texts_of(log, session_id, row[0], 0, row[1]))
            with transaction(index):
                if any(text is None for _, text in texts):
                    clear_index(index)
                    return
                index.executemany(REMOVE, [(position, text) for position, text in texts if text])
                index.execute("DELETE FROM indexed WHERE session = ?", (row[0],))

    def tidy(self) -> None:
        """Make the index as small as it can be, and rid of what was deleted. Raises `StoreError`."""
        if self._place is None or not self._place.exists():
            return
        with self._open() as (index, _):
            index.execute("INSERT INTO word (word) VALUES ('optimize')")
            index.execute("VACUUM")

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._close()

    # --- the files -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        """The index and the log, for one thread at a time; what is broken is opened anew the next time."""
        with self._lock:
            try:
                if self._log is None:
                    self._log = open_to_read(self._path, STEPS)
                if self._index is None:
                    self._index = open_index(self._place)
                yield self._index, self._log
            except sqlite3.Error as error:
                self._close()
                if "fts5" in str(error):
                    raise StoreError("The SQLite of this Python has no full-text search (FTS5).") from error
                if self._place is not None and is_index_damage(error):
                    remove_index(self._place)
                raise database_error(error, self._place or self._path) from error

    def _close(self) -> None:
        for connection in (self._index, self._log):
            if connection is not None:
                connection.close()
        self._index = self._log = None

    # --- the index -----------------------------------------------------------------------------------------------

    def _catch_up(self, index: sqlite3.Connection, log: sqlite3.Connection, budget_bytes: int) -> bool:
        """Take in what was written since, the newest session first; False when more is left than may be done now."""
        known = {number: (name, seq) for number, name, seq in index.execute("SELECT * FROM indexed")}
        logs = [
            (number, name, (position or 0) & ((1 << SEQ_BITS) - 1))
            for number, name, position in log.execute(LOGS)
        ]
        if any(
            known[number][0] != name or known[number][1] > last
            for number, name, last in logs
            if number in known
        ):  # it is the index of another log
            with transaction(index):
                clear_index(index)
            known = {}
        batch = IndexBatch(index)
        for number, name, last in logs:
            seq = known[number][1] if number in known else 0
            while seq < last:
                if batch.read_bytes > budget_bytes:
                    batch.write()
                    return False
                seq = batch.read(log, name, number, seq, last)
        batch.write()
        return True


class IndexBatch:
    """Events to be indexed, of several sessions in one commit. `read_bytes` counts all there have been."""

    def __init__(self, index: sqlite3.Connection) -> None:
        self._index = index
        self._logs: list[tuple[str, int, int, int]] = []
        self._texts: list[tuple[int, str]] = []
        self._bytes = 0
        self.read_bytes = 0

    def read(self, log: sqlite3.Connection, session_id: str, number: int, seq: int, last: int) -> int:
        """Take the next events of a session; returns the number of the last of them."""
        start = number << SEQ_BITS
        rows = rows_after(log, start, seq, last)
        until = rows[-1][0] if rows else last
        self._logs.append((session_id, number, seq, until))
        for at, data in rows:
            if text := text_of_row(session_id, at, data):
                self._texts.append((start + at, text))
        size_bytes = sum([len(data) for _, data in rows])
        self.read_bytes += size_bytes
        self._bytes += size_bytes
        if self._bytes > BATCH_BYTES:
            self.write()
        return until

    def write(self) -> None:
        """Commit what there is. What another process has indexed meanwhile is left to it."""
        index = self._index
        with transaction(index):
            first = {number: seq for _, number, seq, _ in reversed(self._logs)}
            fresh = {
                number
                for number, seq in first.items()
                if seq == (index.execute(REACHED, (number,)).fetchone() or (0,))[0]
            }
            index.executemany(ADD, [row for row in self._texts if row[0] >> SEQ_BITS in fresh])
            index.executemany(
                NOTE, [(number, name, until) for name, number, _, until in self._logs if number in fresh]
            )
        self._logs.clear()
        self._texts.clear()
        self._bytes = 0


def texts_of(
    log: sqlite3.Connection, session_id: str, number: int, after: int, last: int
) -> Iterator[tuple[int, str | None]]:
    """The places of events and what was indexed for them; None where that cannot be known any more."""
    while after < last:
        rows = rows_after(log, number << SEQ_BITS, after, last)
        if not rows:
            return
        for at, data in rows:
            yield (number << SEQ_BITS) + at, text_of_row(session_id, at, data)
        after = rows[-1][0]


def text_of_row(session_id: str, seq: int, data: bytes | str) -> str | None:
    """What of a stored event can be searched; None for a damaged one."""
    event = decode_event_row(session_id, seq, data)
    return None if isinstance(event, Damaged) else text_of(event)


def find_hit(
    index: sqlite3.Connection, log: sqlite3.Connection, row: SessionRow, terms: list[str]
) -> Hit | None:
    """Where the terms stand in a session: all of them in one event if there is one, else the first of them."""
    (number,) = log.execute("SELECT number FROM session WHERE id = ?", (row.id,)).fetchone() or (0,)
    start = number << SEQ_BITS
    for wanted in (" ".join(terms), *terms):
        place = index.execute(PLACE, (wanted, start, start + (1 << SEQ_BITS))).fetchone()
        if place is None:
            continue
        seq = place[0] - start
        for _, data in rows_after(log, start, seq - 1, seq):
            return Hit(row, seq, snippet(text_of_row(row.id, seq, data) or "", terms))
    return None
