"""What is pasted: a long text is folded to one mark until the message is sent; the path of an image is recognized."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from jaato.settings.budgets import format_count

PASTE_CHARS, PASTE_LINES = 1_000, 12
"""A paste that is longer is folded to one mark."""
MARK = re.compile(r"\[pasted #(\d+): [^\]]*\]")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MAX_PATH_CHARS = 4_000


class Pastes:
    """The long texts of a message, by the numbers of their marks."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._count = 0

    def fold(self, text: str) -> str:
        """The mark of a long text; a short one as it is."""
        if len(text) <= PASTE_CHARS and text.count("\n") < PASTE_LINES:
            return text
        self._count += 1
        self._texts[self._count] = text
        lines = format_count(text.count("\n") + 1, "line")
        return f"[pasted #{self._count}: {len(text):,} characters, {lines}]"

    def unfold(self, text: str) -> str:
        """A text with what its marks stand for."""
        return MARK.sub(lambda found: self._texts.get(int(found[1]), found[0]), text)

    def clear(self) -> None:
        """Forget the texts."""
        self._texts.clear()


def find_last_fold(line: str) -> int | None:
    """Where the mark begins with which a line ends; None without one."""
    starts = [found.start() for found in MARK.finditer(line) if found.end() == len(line)]
    return starts[-1] if starts else None


def find_image(text: str) -> Path | None:
    """The image whose absolute path is all of a text, quoted or with escaped blanks as terminals paste it; else None."""
    if "\n" in text.strip() or len(text) > MAX_PATH_CHARS:
        return None
    try:
        words = shlex.split(text)
        path = Path(words[0]) if len(words) == 1 else None
        is_image = (
            path is not None and path.is_absolute() and path.suffix.lower() in IMAGES and path.is_file()
        )
    except (ValueError, OSError):
        return None
    return path if is_image else None
