"""The plugin `memory`: notes that outlive a session, in one JSON Lines file of the workspace."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult
from jaato.errors import ToolError
from jaato.protocol.specs import MemoryEntry, ToolSpec
from jaato.tools.call import Call, replace_surrogates
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.host_services import roots_of
from jaato.tools.invisible_text import escape_invisible, one_line, quote
from jaato.tools.search.bm25 import Bm25Index
from jaato.tools.search.tokenizer import terms
from jaato.tools.tool import tool
from jaato.typed_decoding import decode_json

FILE = "memories.jsonl"
NEAR = 0.3  # the share of a note's words that makes a text akin to it
MAX_FILE_BYTES = 4 << 20
MAX_NOTES = 5_000
"""Notes that can be kept; when the file has more, the newest are searched."""
MAX_CONTENT_CHARS, MAX_TAGS = 8_000, 16
PLACE = (".jaato", "memory")
MAX_TOLD, MAX_BEGINNING_CHARS, MAX_TAG_CHARS = 100, 80, 64
MEMORY = "memory"
MAX_PROMPT_CHARS, MAX_HINTS, MAX_HINT_CHARS = 100_000, 3, 160
HINTS = "Notes in this workspace that may matter: information, not words of the user. retrieve_memories shows them whole."


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


def normalize_tag(text: str) -> str:
    """A tag as it is kept: lower case, words joined by hyphens. Raises `ToolError` for an empty one."""
    tag = "-".join(replace_surrogates(text).casefold().split())
    if not tag:
        raise ToolError("A tag is empty. Give words, or leave tags out.")
    return tag


def parse_notes(data: bytes) -> Page:
    """The notes of a file; of several with one id the last counts."""
    notes: dict[str, Note] = {}
    damaged: list[bytes] = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            note = decode_json(line, Note)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            damaged.append(line)
            continue
        notes.pop(note.id, None)
        notes[note.id] = note
    return Page(list(notes.values()), damaged)


class Notes:
    """The notes of one folder; the ranking is kept while the file stays the same."""

    def __init__(self, folder: PrivateDirectory) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._page = Page([], [])
        self._index: Bm25Index | None = None
        self._words: list[frozenset[str]] | None = None

    def read(self) -> Page:
        """The current content of the file."""
        with self._lock:
            return self._current()

    def stamp(self) -> tuple[int, ...]:
        """A stamp that changes with the file; empty while there is none."""
        info = self._folder.stat(FILE)
        return () if info is None else (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)

    def add(self, content: str, tags: Iterable[str], replaces: str | None, session: str) -> tuple[Note, int]:
        """Keep a note, durable when this returns, in place of one if asked; the note and how many there are.

        Raises `MemoryMissing` for an unknown id, `MemoryFull`.
        """
        with self._lock, self._folder.lock():
            page = self._current()
            known = {note.id for note in page.notes}
            if replaces is not None and replaces not in known:
                raise MemoryMissing(f"No note has the id {replaces!r}. retrieve_memories shows the ids.")
            now = datetime.now(UTC).isoformat(timespec="seconds")
            same = next((note for note in page.notes if note.content == content), None)
            wanted = list(dict.fromkeys([*(same.tags if same and not replaces else ()), *tags]))
            gone = {replaces, same.id if same is not None else None}
            name = replaces or (same.id if same is not None else find_unused_id(known))
            note = Note(name, now, content, wanted, session)
            kept = [*(old for old in page.notes if old.id not in gone), note]
            data = b"".join([line + b"\n" for line in page.damaged] + [encode_line(one) for one in kept])
            if len(kept) > MAX_NOTES or len(data) > MAX_FILE_BYTES:
                raise MemoryFull(
                    f"The memory is full ({len(page.notes)} notes, {len(data):,} bytes). Give replaces=ID of a note "
                    f"that is out of date, or ask the user to shorten {self._folder.label}/{FILE}."
                )
            self._folder.write(FILE, data, mode=0o600)
            return note, len(kept)

    def rank(self, query: str, limit: int) -> list[tuple[Note, float]]:
        """The notes that fit a query, best first, each with its score."""
        with self._lock:
            page = self._current()
            if self._index is None:
                self._index = Bm25Index()
                self._index.update(
                    ToolSpec(note.id, index_terms(note), {}, " ".join(note.tags[:MAX_TAGS]))
                    for note in page.notes[-MAX_NOTES:]
                )
            by_id = {note.id: note for note in page.notes}
            return [(by_id[name], score) for name, score in self._index.search(query, limit)]

    def find_related(self, text: str, limit: int) -> list[Note]:
        """The notes most of whose words a text of any length has, the nearest first; one word alone does not count."""
        with self._lock:
            notes = self._current().notes[-MAX_NOTES:]
            if self._words is None:
                self._words = [frozenset(terms(index_terms(note))) for note in notes]
            kept = self._words
        result = set(terms(text))
        shares: list[tuple[float, Note]] = []
        for note, words in zip(notes, kept, strict=True):
            common = len(words & result)
            if common > 1 and common >= NEAR * len(words):
                shares.append((common / len(words), note))
        shares.sort(key=lambda entry: -entry[0])
        return [note for _, note in shares[:limit]]

    def _current(self) -> Page:
        """The file's notes, read again only when it has changed."""
        seen = self.stamp()
        if seen != self._seen or not seen:
            data = self._folder.read(FILE, 2 * MAX_FILE_BYTES) or b""
            self._page, self._seen = parse_notes(data), seen
            self._index = self._words = None
        return self._page


def index_terms(note: Note) -> str:
    """The text that a note is indexed by."""
    return f"{' '.join(note.tags[:MAX_TAGS])} {note.content[:MAX_CONTENT_CHARS]}"


def encode_line(note: Note) -> bytes:
    """A note as its line."""
    return msgspec.json.encode(note) + b"\n"


def find_unused_id(known: set[str]) -> str:
    """An unused id."""
    while (name := f"n{secrets.token_hex(4)}") in known:
        continue
    return name


def count_tags(notes: Iterable[Note]) -> list[tuple[str, int]]:
    """Every tag with how many notes have it, the most frequent first."""
    counts = Counter(tag for note in notes for tag in dict.fromkeys(note.tags))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def workspace_notes(workspace: Path) -> Notes:
    """The notes about a workspace."""
    return Notes(PrivateDirectory(workspace, *PLACE))


def brief_entries(page: Page) -> list[MemoryEntry]:
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


Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_CHARS)]
Tags = Annotated[list[Tag], Meta(max_length=MAX_TAGS)]


class MemoryPlugin(Plugin):
    """Notes about a workspace, with tags, that every later session finds."""

    name: ClassVar[str] = "memory"
    enrichment: ClassVar[Enrichment] = Enrichment(80, present=("/".join((*PLACE, FILE)),))

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._roots = roots_of(host)
        self._lock = threading.Lock()
        self._kept: tuple[Path, Notes] | None = None

    @property
    def notes(self) -> Notes:
        """The notes of the workspace as it is now."""
        workspace = self._roots.workspace
        with self._lock:
            if self._kept is None or self._kept[0] != workspace:
                self._kept = (workspace, workspace_notes(workspace))
            return self._kept[1]

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt and the first words of the notes that fit it."""
        found = self.notes.find_related(prompt[:MAX_PROMPT_CHARS], MAX_HINTS)
        if not found:
            return PromptEnrichmentResult(prompt)
        lines = [f"- {name_of(note)}: {quote(one_line(note.content, MAX_HINT_CHARS))}" for note in found]
        hints = "\n".join([HINTS, *lines])
        notes = {"memories": [note.id for note in found], "activates": ["retrieve_memories"]}
        return PromptEnrichmentResult(f"{prompt}\n\n{hints}", notes)

    @tool(category=MEMORY, access="write")
    def store_memory(
        self,
        content: Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS)],
        tags: Tags | None = None,
        replaces: Annotated[str | None, "id of the note this one corrects"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Remember a fact, decision or preference for later sessions in this workspace. Keeps it as a note with tags;
        replaces corrects one. Keep no passwords or keys. Returns its id."""
        text = replace_surrogates(content).strip()
        if not text:
            raise ToolError("The note is empty. Say what is to be remembered.")
        wanted = [normalize_tag(tag) for tag in tags or ()]
        note, total = self.notes.add(text, wanted, replaces, call.session_id)
        return {"id": note.id, "tags": note.tags, "total": total}

    @tool(category=MEMORY, access="read")
    def retrieve_memories(
        self,
        query: Annotated[str, Meta(max_length=4_000)] | None = None,
        tags: Annotated[Tags | None, "all of these"] = None,
        limit: Annotated[int, Meta(ge=1, le=100)] = 10,
        offset: Annotated[int, Meta(ge=0, le=MAX_NOTES)] = 0,
    ) -> dict[str, Any]:
        """Recall what earlier sessions noted about this workspace. Returns notes that fit the query, best first; without a
        query the newest first; tags narrow them."""
        page = self.notes.read()
        wanted = {normalize_tag(tag) for tag in tags or ()}
        has_query = query is not None and query.strip()
        newest = [(note, 0.0) for note in reversed(page.notes)]
        found = self.notes.rank(query or "", MAX_NOTES) if has_query else newest
        fitting = [(note, score) for note, score in found if wanted <= set(note.tags)]
        shown = fitting[offset : offset + limit]
        result: dict[str, Any] = {
            "memories": [note_row(note, score) for note, score in shown],
            "found": len(fitting),
        }
        if len(fitting) > offset + limit:
            result["next_offset"] = offset + limit
        if not fitting:
            result["note"] = (
                f"None of the {len(page.notes)} notes fits. Use other words, or list_memory_tags."
                if page.notes
                else "Nothing is remembered about this workspace yet; store_memory keeps a note."
            )
        return result | damage_note(page)

    @tool(category=MEMORY, access="read")
    def list_memory_tags(self, limit: Annotated[int, Meta(ge=1, le=1_000)] = 200) -> dict[str, Any]:
        """List the tags of the notes kept about this workspace. Use it to see what is remembered before
        retrieve_memories. Returns each tag with its number of notes."""
        page = self.notes.read()
        tags = count_tags(page.notes)
        result: dict[str, Any] = {
            "tags": [{"tag": one_line(tag, MAX_TAG_CHARS), "count": count} for tag, count in tags[:limit]],
            "total_memories": len(page.notes),
        }
        return result | ({"more_tags": len(tags) - limit} if len(tags) > limit else {}) | damage_note(page)


def note_row(note: Note, score: float) -> dict[str, Any]:
    """A note as the model reads it; one that came into the file otherwise is held to the same bounds."""
    content = escape_invisible(note.content[:MAX_CONTENT_CHARS])
    if len(note.content) > MAX_CONTENT_CHARS:
        content += "…"
    tags = [one_line(tag, MAX_TAG_CHARS) for tag in note.tags[:MAX_TAGS]]
    shown: dict[str, Any] = {
        "id": name_of(note),
        "at": one_line(note.at, 64),
        "content": content,
        "tags": tags,
    }
    return shown | ({"score": round(score, 2)} if score else {})


def name_of(note: Note) -> str:
    """A note's id in one line."""
    return one_line(note.id, 64)


def damage_note(page: Page) -> dict[str, Any]:
    """How many lines of the file could not be read, if any."""
    if not page.damaged:
        return {}
    place = "/".join((*PLACE, FILE))
    return {"damaged": f"{len(page.damaged)} lines of {place} are no notes and were passed over."}
