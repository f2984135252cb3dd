"""What was typed: earlier messages, and the draft of each session, kept in private files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from jaato.cli.output.console import printable
from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private

MAX_ENTRIES = 300
MAX_DRAFTS = 100
MAX_ENTRY_CHARS = 5_000
"""Characters of a message that the file of the history keeps; a longer one is left out of it."""
MAX_DRAFT_CHARS = 2_000_000
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
        """What was typed before an earlier message was shown."""
        self._kept = ("", "")
        """The draft that was written last."""

    def add(self, text: str) -> None:
        """Remember a message that was sent."""
        if text.strip() and text not in self.entries[-1:]:
            self.entries = [*self.entries, text][-MAX_ENTRIES:]
            if len(text) <= MAX_ENTRY_CHARS:
                change_json(self._history_path, lambda known: append(known, text))
        self._at = len(self.entries)
        self._unsent = ""

    def earlier(self, text: str) -> str | None:
        """The message before the one shown; `text` is what stands in the prompt."""
        if self._at == 0:
            return None
        if self._at == len(self.entries):
            self._unsent = text
        self._at -= 1
        return self.entries[self._at]

    def later(self) -> str | None:
        """The message after the one shown, at last what was typed and not sent."""
        if self._at >= len(self.entries):
            return None
        self._at += 1
        return self._unsent if self._at == len(self.entries) else self.entries[self._at]

    def unsent(self, text: str) -> str:
        """What was typed and not sent, when `text` stands in the prompt: an earlier message that is shown is not."""
        is_recalled = self._at < len(self.entries) and text == self.entries[self._at]
        return self._unsent if is_recalled else text

    def draft(self, key: str) -> str:
        """The draft of a session or directory."""
        drafts = read_json(self._drafts_path)
        found = drafts.get(key) if isinstance(drafts, dict) else None
        text = found if isinstance(found, str) else ""
        self._kept = key, text
        return printable(text)

    def keep_draft(self, key: str, text: str) -> None:
        """Keep the draft of a session or directory; an empty one is removed."""
        if self._kept == (key, text):
            return
        self._kept = key, text
        change_json(self._drafts_path, lambda known: add_draft(known, key, text[:MAX_DRAFT_CHARS]))


def append(known: object, text: str) -> list[str]:
    """A history with one more message."""
    return [*(known if isinstance(known, list) else []), text][-MAX_ENTRIES:]


def add_draft(known: object, key: str, text: str) -> dict[str, str]:
    """Drafts with this one as the newest."""
    drafts = dict(known) if isinstance(known, dict) else {}
    drafts.pop(key, None)
    if text.strip():
        drafts[key] = text
    return dict(list(drafts.items())[-MAX_DRAFTS:])


def read_json(path: Path) -> object:
    """What a file has, None if it cannot be read."""
    try:
        data = read_bounded(path, MAX_BYTES)
        return json.loads(data) if data else None
    except (OSError, ValueError, ConfigError, RecursionError):
        return None


def change_json(path: Path, change: Callable[[object], object]) -> None:
    """Replace what a file has by a function of it; without effect on a full or read-only disk."""
    try:
        with file_lock(path):
            text = json.dumps(change(read_json(path)), ensure_ascii=True)
            write_private(path, text.encode())
    except OSError:
        return
