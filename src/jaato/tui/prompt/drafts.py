"""The draft of each client, by session or directory, kept in a private file."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
from contextlib import suppress
from pathlib import Path

from jaato.cli.output.console import printable
from jaato.tools.filesystem.atomic import file_lock
from jaato.tui.prompt.json_file import MAX_BYTES, change_json, encode, read_json

MAX_DRAFTS = 100
MAX_DRAFT_CHARS = 2_000_000
MAX_DRAFT_FILES = 20


class Drafts:
    """The drafts in a directory, of which this client has one open."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "tui_drafts.json"
        self._slot: str | None = None
        """The name of this client's draft in the file, while it is open: each client of a session or directory has its own."""
        self._lock: int | None = None
        self._kept: tuple[str, list[str]] = "", []
        """The draft that was written last."""

    def open(self, key: str) -> tuple[str, list[str]]:
        """The newest draft of a session or directory that no other client has open, if there is one, and the paths of what is
        attached to it; it is this client's until `close`."""
        drafts = self._read()
        self._slot = key
        with suppress(OSError), file_lock(self._path):
            drafts = self._read()  # again: another client may have kept one
            self._remove_free_locks()
            written = [slot for slot in reversed(drafts) if has_draft_of(slot, key)]
            numbered = (f"{number} {key}" for number in itertools.count(2))
            self._slot = next(filter(self._lock_slot, itertools.chain(written, [key], numbered)))
        self._kept = text, paths = read_draft(drafts.get(self._slot))
        return printable(text), list(paths)

    def _read(self) -> dict[str, object]:
        known = read_json(self._path)
        return known if isinstance(known, dict) else {}

    def _lock_slot(self, slot: str) -> bool:
        """Lock a draft for this client; whether no other one has it. Raises `OSError`."""
        self._lock = try_lock(self._lock_path(slot))
        return self._lock is not None

    def _lock_path(self, slot: str) -> Path:
        digest = hashlib.sha256(slot.encode("utf-8", "surrogateescape")).hexdigest()
        return self._path.with_name(f".{self._path.name}.{digest[:16]}.lock")

    def _remove_free_locks(self) -> None:
        """Remove the lock files of clients that were killed. Raises `OSError`."""
        for path in self._path.parent.glob(f".{self._path.name}.*.lock"):
            if (descriptor := try_lock(path)) is not None:
                path.unlink(missing_ok=True)
                os.close(descriptor)

    def keep(self, text: str, paths: list[str]) -> str:
        """Keep the draft that is open, with the paths of what is attached to it; an empty one is removed. Gives why it cannot be
        kept, empty if it is: this client has it alone then."""
        slot = self._slot
        if slot is None or self._kept == (text, paths):
            return ""
        draft = text[:MAX_DRAFT_CHARS], paths[:MAX_DRAFT_FILES]
        problem = change_json(self._path, lambda known: add_draft(known, slot, *draft))
        if not problem:
            self._kept = text, paths
        return problem

    def close(self) -> None:
        """Leave the draft to the next client."""
        slot, lock, self._slot, self._lock = self._slot, self._lock, None, None
        if slot is not None and lock is not None:
            with suppress(OSError), file_lock(self._path):
                self._lock_path(slot).unlink(missing_ok=True)
            os.close(lock)


def try_lock(path: Path) -> int | None:
    """The descriptor of a lock that is held by it; None if another one holds it. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def has_draft_of(slot: str, key: str) -> bool:
    """Whether a slot is for a draft of this session or directory: of its first client, or with the number of another."""
    number, _, rest = slot.partition(" ")
    return slot == key or (number.isdecimal() and rest == key)


def read_draft(stored: object) -> tuple[str, list[str]]:
    """The text of a stored draft, which is all of one with nothing attached, and the paths of what is attached."""
    found = stored if isinstance(stored, dict) else {"text": stored}
    text, paths = found.get("text"), found.get("files")
    return text if isinstance(text, str) else "", list(map(str, paths)) if isinstance(paths, list) else []


def add_draft(known: object, key: str, text: str, paths: list[str]) -> dict[str, object]:
    """Drafts with this one as the newest."""
    drafts = dict(known) if isinstance(known, dict) else {}
    drafts.pop(key, None)
    if text.strip() or paths:
        drafts[key] = {"text": text, "files": paths} if paths else text
    newest: dict[str, object] = {}
    size = 0
    for slot, draft in list(reversed(drafts.items()))[:MAX_DRAFTS]:
        size += len(encode({slot: draft}))
        if size > MAX_BYTES:
            break  # a larger file would not be read
        newest[slot] = draft
    return dict(reversed(newest.items()))
