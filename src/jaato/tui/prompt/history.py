"""The messages sent before, kept in a private file, and what was typed while one of them is shown."""

from __future__ import annotations

from pathlib import Path

from jaato.tui.prompt.json_file import change_json, read_json

MAX_ENTRIES = 300
MAX_ENTRY_CHARS = 5_000
"""Characters of a message that the file keeps; a longer one is left out of it."""


class History:
    """The messages sent before, and the one of them that is shown."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "tui_history.json"
        entries = read_json(self._path)
        self.entries = [str(entry) for entry in entries][-MAX_ENTRIES:] if isinstance(entries, list) else []
        self._at = len(self.entries)
        self._unsent = ""
        """What was typed before another text took its place."""
        self._begun = ""
        """The text that took it, while nothing changes it."""

    def add(self, text: str) -> None:
        """Remember a message that was sent."""
        if text.strip() and text not in self.entries[-1:]:
            self.entries = [*self.entries, text][-MAX_ENTRIES:]
            if len(text) <= MAX_ENTRY_CHARS:
                change_json(self._path, lambda known: append(known, text))
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


def append(known: object, text: str) -> list[str]:
    """A history with one more message."""
    return [*(known if isinstance(known, list) else []), text][-MAX_ENTRIES:]
