"""Notes in one JSON Lines file of the workspace: readable, bounded, written whole, by any number of processes."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from jaato.errors import ToolError
from jaato.protocol.specs import MemoryEntry, ToolSpec
from jaato.tools.call import clean
from jaato.tools.folder import Folder
from jaato.tools.search import Index
from jaato.tools.unseen import one_line
from jaato.tools.words import terms

FILE = "memories.jsonl"
NEAR = 0.3  # the share of a note's words that makes a text akin to it
MAX_FILE_BYTES = 4 << 20
MAX_NOTES = 5_000
"""So many can be kept; of more that a stranger put there the newest are searched."""
MAX_CONTENT_CHARS, MAX_TAGS = 8_000, 16
PLACE = (".jaato", "memory")
MAX_TOLD, MAX_BEGINNING_CHARS, MAX_TAG_CHARS = 100, 80, 64


class MemoryFull(ToolError):
    """There is no room for another note."""

    code = "memory_full"


class MemoryMissing(ToolError):
    """No note has this id."""

    code = "memory_not_found"


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """One note, as it stands on its line; `at` is ISO 8601 UTC, `session` who wrote it."""

    id: str
    at: str
    content: str
    tags: list[str] = []
    session: str = ""


class Page(msgspec.Struct, frozen=True):
    """Everything in the file: its notes, oldest first, and the lines that are none, kept as they are."""

    notes: list[Note]
    damaged: list[bytes]


def tag_of(text: str) -> str:
    """A tag as it is kept: lower case, words joined by hyphens. Raises `ToolError` for an empty one."""
    tag = "-".join(clean(text).casefold().split())
    if not tag:
        raise ToolError("A tag is empty. Give words, or leave tags out.")
    return tag


def parsed(data: bytes) -> Page:
    """The notes of a file; of several with one id the last counts."""
    notes: dict[str, Note] = {}
    damaged: list[bytes] = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            note = msgspec.json.decode(line, type=Note)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged.append(line)
            continue
        notes.pop(note.id, None)
        notes[note.id] = note
    return Page(list(notes.values()), damaged)


class Notes:
    """The notes of one folder; the ranking is kept while the file stays the same."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._page = Page([], [])
        self._index: Index | None = None
        self._words: list[frozenset[str]] | None = None

    def read(self) -> Page:
        """What the file holds now."""
        with self._lock:
            return self._current()

    def stamp(self) -> tuple[int, ...]:
        """What is another one as soon as the file has changed; empty while there is none."""
        info = self._folder.stat(FILE)
        return () if info is None else (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)

    def add(self, content: str, tags: Iterable[str], replaces: str | None, session: str) -> tuple[Note, int]:
        """Keep a note, durable when this returns, in place of one if asked; the note and how many there are.

        Raises `MemoryMissing` for an unknown id, `MemoryFull`.
        """
        with self._lock, self._folder.locked():
            page = self._current()
            known = {note.id for note in page.notes}
            if replaces is not None and replaces not in known:
                raise MemoryMissing(f"No note has the id {replaces!r}. retrieve_memories shows the ids.")
            now = datetime.now(UTC).isoformat(timespec="seconds")
            same = next((note for note in page.notes if note.content == content), None)
            wanted = list(dict.fromkeys([*(same.tags if same and not replaces else ()), *tags]))
            gone = {replaces, same.id if same is not None else None}
            name = replaces or (same.id if same is not None else fresh(known))
            note = Note(name, now, content, wanted, session)
            kept = [*(old for old in page.notes if old.id not in gone), note]
            data = b"".join([line + b"\n" for line in page.damaged] + [line_of(one) for one in kept])
            if len(kept) > MAX_NOTES or len(data) > MAX_FILE_BYTES:
                raise MemoryFull(
                    f"The memory is full ({len(page.notes)} notes, {len(data):,} bytes). Give replaces=ID of a note "
                    f"that is out of date, or ask the user to shorten {self._folder.label}/{FILE}."
                )
            self._folder.write(FILE, data, mode=0o600)
            return note, len(kept)

    def ranked(self, query: str, limit: int) -> list[tuple[Note, float]]:
        """The notes that fit a query, best first, each with its score."""
        with self._lock:
            page = self._current()
            if self._index is None:
                self._index = Index()
                self._index.update(
                    ToolSpec(note.id, words_of(note), {}, " ".join(note.tags[:MAX_TAGS]))
                    for note in page.notes[-MAX_NOTES:]
                )
            by_id = {note.id: note for note in page.notes}
            return [(by_id[name], score) for name, score in self._index.search(query, limit)]

    def akin(self, text: str, limit: int) -> list[Note]:
        """The notes most of whose words a text of any length has, the nearest first; one word alone does not count."""
        with self._lock:
            notes = self._current().notes[-MAX_NOTES:]
            if self._words is None:
                self._words = [frozenset(terms(words_of(note))) for note in notes]
            kept = self._words
        said = set(terms(text))
        shares: list[tuple[float, Note]] = []
        for note, words in zip(notes, kept, strict=True):
            common = len(words & said)
            if common > 1 and common >= NEAR * len(words):
                shares.append((common / len(words), note))
        shares.sort(key=lambda entry: -entry[0])
        return [note for _, note in shares[:limit]]

    def _current(self) -> Page:
        """The file's notes, read again only when it has changed."""
        seen = self.stamp()
        if seen != self._seen or not seen:
            data = self._folder.read(FILE, 2 * MAX_FILE_BYTES) or b""
            self._page, self._seen = parsed(data), seen
            self._index = self._words = None
        return self._page


def words_of(note: Note) -> str:
    """What a note is found by."""
    return f"{' '.join(note.tags[:MAX_TAGS])} {note.content[:MAX_CONTENT_CHARS]}"


def line_of(note: Note) -> bytes:
    """A note as its line."""
    return msgspec.json.encode(note) + b"\n"


def fresh(known: set[str]) -> str:
    """An id nobody has."""
    while (name := f"n{secrets.token_hex(4)}") in known:
        continue
    return name


def counted(notes: Iterable[Note]) -> list[tuple[str, int]]:
    """Every tag with how many notes have it, the most frequent first."""
    counts = Counter(tag for note in notes for tag in dict.fromkeys(note.tags))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def notes_of(workspace: Path) -> Notes:
    """The notes about a workspace."""
    return Notes(Folder(workspace, *PLACE))


def entries_of(page: Page) -> list[MemoryEntry]:
    """The newest notes in short, newest first."""
    return [
        MemoryEntry(
            one_line(note.id, 64),
            one_line(note.content, MAX_BEGINNING_CHARS),
            [one_line(tag, MAX_TAG_CHARS) for tag in note.tags[:MAX_TAGS]],
            one_line(note.at, 64),
        )
        for note in reversed(page.notes[-MAX_TOLD:])
    ]
