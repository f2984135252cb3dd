"""What was typed: earlier messages, and the draft of each client by session or directory, kept in private files."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jaato.cli.output.console import printable
from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.tui.prompt.attachments import Attachments

MAX_ENTRIES = 300
MAX_DRAFTS = 100
MAX_ENTRY_CHARS = 5_000
"""Characters of a message that the file of the history keeps; a longer one is left out of it."""
MAX_DRAFT_CHARS = 2_000_000
MAX_DRAFT_FILES = 20
MAX_BYTES = 16 << 20


class Memory:
    """The history and the drafts in a directory; what cannot be read or written is kept for this process alone."""

    def __init__(self, directory: Path) -> None:
        self._history_path = directory / "tui_history.json"
        self._drafts_path = directory / "tui_drafts.json"
        entries = read_json(self._history_path)
        self.entries = [str(entry) for entry in entries][-MAX_ENTRIES:] if isinstance(entries, list) else []
        self._at = len(self.entries)
        self._unsent = ""
        """What was typed before another text took its place."""
        self._begun = ""
        """The text that took it, while nothing changes it."""
        self._slot: str | None = None
        """The name of this client's draft in the file, while it is open: each client of a session or directory has its own."""
        self._lock: int | None = None
        self._kept: tuple[str, list[str]] = "", []
        """The draft that was written last."""
        self.attachments = Attachments()

    def add(self, text: str) -> None:
        """Remember a message that was sent."""
        if text.strip() and text not in self.entries[-1:]:
            self.entries = [*self.entries, text][-MAX_ENTRIES:]
            if len(text) <= MAX_ENTRY_CHARS:
                change_json(self._history_path, lambda known: append(known, text))
        self._at = len(self.entries)

    def earlier(self, text: str) -> str | None:
        """The message before the one shown; `text` is what stands in the prompt."""
        if self._at == 0:
            return None
        if self._at == len(self.entries):
            self.interrupt(text)
        self._at -= 1
        return self.entries[self._at]

    def later(self) -> str | None:
        """The message after the one shown, at last what was typed and not sent."""
        if self._at >= len(self.entries):
            return None
        self._at += 1
        return self.resume() if self._at == len(self.entries) else self.entries[self._at]

    def interrupt(self, text: str, begun: str = "") -> None:
        """Remember `text`, which was typed, as another text takes its place in the prompt. That one is `begun` where it was not
        typed either: it is not remembered unless the user changes it."""
        if text != self._begun:
            self._unsent = "\n".join(filter(None, [self._unsent, text]))
        self._begun = begun

    def resume(self) -> str:
        """What was typed before another text took its place in the prompt; once."""
        text, self._unsent, self._begun = self._unsent, "", ""
        return text

    def unsent(self, text: str) -> str:
        """What was typed and not sent, when `text` stands in the prompt: an earlier message that is shown is not."""
        is_recalled = self._at < len(self.entries) and text == self.entries[self._at]
        return self._unsent if is_recalled else "\n".join(filter(None, [self._unsent, text]))

    def open_draft(self, key: str) -> str:
        """The newest draft of a session or directory that no other client has open, if there is one; it is this client's until
        `close_draft`."""
        drafts = self._read_drafts()
        self._slot = key
        with suppress(OSError), file_lock(self._drafts_path):
            drafts = self._read_drafts()  # again: another client may have kept one
            self._remove_free_locks()
            written = [slot for slot in reversed(drafts) if has_draft_of(slot, key)]
            numbered = (f"{number} {key}" for number in itertools.count(2))
            self._slot = next(filter(self._lock_slot, itertools.chain(written, [key], numbered)))
        self._kept = text, paths = read_draft(drafts.get(self._slot))
        self.attachments.stored = list(paths)
        return printable(text)

    def _read_drafts(self) -> dict[str, object]:
        known = read_json(self._drafts_path)
        return known if isinstance(known, dict) else {}

    def _lock_slot(self, slot: str) -> bool:
        """Lock a draft for this client; whether no other one has it. Raises `OSError`."""
        self._lock = try_lock(self._lock_path(slot))
        return self._lock is not None

    def _lock_path(self, slot: str) -> Path:
        digest = hashlib.sha256(slot.encode("utf-8", "surrogateescape")).hexdigest()
        return self._drafts_path.with_name(f".{self._drafts_path.name}.{digest[:16]}.lock")

    def _remove_free_locks(self) -> None:
        """Remove the lock files of clients that were killed. Raises `OSError`."""
        for path in self._drafts_path.parent.glob(f".{self._drafts_path.name}.*.lock"):
            if (descriptor := try_lock(path)) is not None:
                path.unlink(missing_ok=True)
                os.close(descriptor)

    def keep_draft(self, text: str, paths: list[str]) -> None:
        """Keep the draft that is open, with the paths of what is attached to it; an empty one is removed."""
        slot = self._slot
        if slot is not None and self._kept != (text, paths):
            self._kept = text, paths
            draft = text[:MAX_DRAFT_CHARS], paths[:MAX_DRAFT_FILES]
            change_json(self._drafts_path, lambda known: add_draft(known, slot, *draft))

    def close_draft(self) -> None:
        """Leave the draft to the next client."""
        slot, lock, self._slot, self._lock = self._slot, self._lock, None, None
        if slot is not None and lock is not None:
            with suppress(OSError), file_lock(self._drafts_path):
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


def append(known: object, text: str) -> list[str]:
    """A history with one more message."""
    return [*(known if isinstance(known, list) else []), text][-MAX_ENTRIES:]


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


def read_json(path: Path) -> object:
    """What a file has, None if it cannot be read."""
    try:
        data = read_bounded(path, MAX_BYTES)
        return json.loads(data) if data else None
    except (OSError, ValueError, ConfigError, RecursionError):
        return None


def encode(content: object) -> bytes:
    """What a file has for this."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


def change_json(path: Path, change: Callable[[object], object]) -> None:
    """Replace what a file has by a function of it; without effect on a full or read-only disk."""
    try:
        with file_lock(path):
            write_private(path, encode(change(read_json(path))))
    except OSError:
        return
