"""Invisible characters: find them in untrusted texts, and escape them where a person decides."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from jaato.lazy_pattern import lazy_pattern

MAX_MARKS = 3
BLANK = lazy_pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001d159\U000e0000-\U000e0fff]"
)
"""Characters that count as printable, or as nothing yet, and show nothing."""
JOINERS = "\u200c\u200d"
PRESENTATION = "\ufe0e\ufe0f"
ODD = lazy_pattern(r"[^\t\n\r -~]|\r(?!\n)")
"""What may be unseen: all but plain letters and the ends of lines."""
KEYCAPS = frozenset("0123456789#*\u203c\u2049")


def escape_all(text: str) -> str:
    """Text with every control and invisible character spelled out, and no more than a few marks on one letter."""
    if text.isascii() and text.isprintable():
        return text
    built, marks = [], 0
    for char in text:
        if char.isascii():
            marks = 0
            built.append(char if " " <= char <= "~" else escape_code(char))
            continue
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        seen = char.isprintable() and category != "Cf" and BLANK.match(char) is None and marks <= MAX_MARKS
        built.append(char if seen else escape_code(char))
    return "".join(built)


def escape_code(char: str) -> str:
    """One character as its code."""
    return char.encode("unicode_escape", "backslashreplace").decode("ascii") if char != "\t" else "    "


def find_invisible(text: str) -> list[str]:
    """The invisible characters of a text, each once, as `U+202E`: controls, direction marks, tags, blanks.

    Line ends and tabs are none, nor is what spells an emoji or joins the letters of a script that needs it.
    """
    if text.isascii() and text.isprintable():
        return []
    odd = ODD.finditer(text)
    found = {one[0] for one in odd if is_unseen(one[0]) and not belongs(text, one.start())}
    return [f"U+{ord(char):04X}" for char in sorted(found)]


def is_unseen(char: str) -> bool:
    """Whether this character, by itself, shows nothing or steers what is shown."""
    if " " <= char <= "~" or char in "\n\r\t":
        return False
    category = unicodedata.category(char)
    return category in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") or BLANK.match(char) is not None


def belongs(text: str, at: int) -> bool:
    """Whether an invisible character is part of how its neighbours are written."""
    char = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1 : at + 2]
    if char in PRESENTATION:
        return is_emoji(before) or before in KEYCAPS
    if char in JOINERS:
        between_emoji = char == "\u200d" and (is_emoji(before) or before in PRESENTATION) and is_emoji(after)
        return between_emoji or (is_joined(before) and is_joined(after))
    return False


def is_emoji(char: str) -> bool:
    """Whether a pictograph, or the colour of its skin."""
    return bool(char) and unicodedata.category(char) in ("So", "Sk", "Sm") and not char.isascii()


def is_joined(char: str) -> bool:
    """Whether a letter or mark of a script whose letters join (no Latin, Greek or Cyrillic)."""
    return bool(char) and unicodedata.category(char) in ("Lo", "Mn", "Mc") and char > "\u0590"


def escape_invisible(text: str) -> str:
    """A text for a model, with invisible characters escaped; line ends, tabs, emoji and scripts stay."""
    if text.isascii() and text.isprintable():
        return text
    return ODD.sub(lambda match: show_character(text, match.start(), match[0]), text)


def show_character(text: str, at: int, char: str) -> str:
    """One character of a text as it is shown."""
    lone = char == "\r"
    return escape_code(char) if lone or (is_unseen(char) and not belongs(text, at)) else char


def one_line(text: str, most: int) -> str:
    """A text in one line of bounded length, spelt out."""
    flat = escape_invisible(" ".join(text[: most * 4].split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def blank_unprintable(text: str) -> str:
    """A text with a space in place of each character that is not printable, line ends among them."""
    return "".join(char if char.isprintable() else " " for char in text)


def printable_line(text: str) -> str:
    """A text in one line, with one space in place of what is not printable."""
    return " ".join(blank_unprintable(text).split())


def quote(text: str) -> str:
    """A text in quotation marks that it cannot end."""
    return json.dumps(escape_invisible(text), ensure_ascii=False)


def strings_in(value: Any) -> Iterator[str]:
    """Every string of a JSON value, keys too, however deep."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as table:
                waiting += [*table.keys(), *table.values()]
            case list() | tuple() as items:
                waiting += items
