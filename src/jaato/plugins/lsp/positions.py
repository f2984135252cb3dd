"""Places in a text: by line and name as a model says it, by line and UTF-16 unit as the protocol does."""

from __future__ import annotations

import re
from typing import Any

from jaato.errors import ToolError

LINE = re.compile(r"\r\n|\n|\r")
NEAR = 3
SHOWN_CHARS = 240


class NoSuchPlace(ToolError):
    """The symbol is not where it was said to be."""

    code = "no_such_place"


class Lines:
    """A text by its lines, as the protocol counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in LINE.finditer(text))]

    def line(self, number: int) -> str:
        """A line from 0, without its end; empty beyond the text."""
        if not 0 <= number < len(self.starts):
            return ""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def offset(self, position: dict[str, Any]) -> int:
        """The index of a position; one beyond a line's end is its end, one beyond the text the text's end.

        Raises ValueError for what is no position.
        """
        number, unit = position.get("line"), position.get("character")
        if type(number) is not int or type(unit) is not int or number < 0 or unit < 0:
            raise ValueError(f"{position!r} is no position")
        if number >= len(self.starts):
            return len(self.text)
        return self.starts[number] + index_of(self.line(number), unit)

    def place(self, symbol: str | None, line: int | None, column: int | None) -> dict[str, int]:
        """The position that is meant, lines and columns counted from 1. Raises `NoSuchPlace`."""
        if line is not None and not 1 <= line <= len(self.starts):
            raise NoSuchPlace(f"There is no line {line}: the file has {len(self.starts)}.")
        if symbol is None or not symbol.strip():
            if line is None or column is None:
                raise NoSuchPlace("Name the symbol, and the line it is on; or give line and column.")
            return position_at(line - 1, self.line(line - 1), column - 1)
        name = symbol.strip().rsplit(".", 1)[-1].removesuffix("()")
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        if line is None:
            near = range(len(self.starts))
        else:
            near = sorted(  # type: ignore[assignment]  # both are sequences of numbers
                range(max(0, line - 1 - NEAR), min(len(self.starts), line + NEAR)),
                key=lambda n: abs(n - line + 1),
            )
        for number in near:
            found = [match.start() for match in pattern.finditer(self.line(number))]
            if found:
                at = min(found, key=lambda index: abs(index - column + 1)) if column is not None else found[0]
                return position_at(number, self.line(number), at)
        others = [n + 1 for n in range(len(self.starts)) if pattern.search(self.line(n))][:10]
        where = f"; it is on line {', '.join(map(str, others))}" if others else " of this file"
        raise NoSuchPlace(
            f"{name!r} is not on line {line}{where}." if line else f"{name!r} is on no line of this file."
        )

    def word(self, position: dict[str, int]) -> str:
        """The name at a position; empty where there is none."""
        text = self.line(position["line"])
        at = index_of(text, position["character"])
        return next((m[0] for m in re.finditer(r"\w+", text) if m.start() <= at <= m.end()), "")


def position_at(number: int, text: str, index: int) -> dict[str, int]:
    """The position of a character of a line."""
    return {"line": number, "character": units(text[: max(0, index)])}


def units(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def index_of(text: str, unit: int) -> int:
    """The index of the character at this UTF-16 unit; the end where the text is shorter."""
    if text.isascii():
        return min(unit, len(text))
    passed = 0
    for index, character in enumerate(text):
        if passed >= unit:
            return index
        passed += 2 if ord(character) > 0xFFFF else 1
    return len(text)
