"""The fenced code blocks of a Markdown text, and the text around them."""

from __future__ import annotations

from typing import NamedTuple


class Block(NamedTuple):
    """A code block: its language, lower case, perhaps empty; its text with the last line's end."""

    language: str
    text: str


class Parts(NamedTuple):
    """A text taken apart: its blocks, and the lines of everything else. A block that never ends is none."""

    blocks: list[Block]
    prose: list[str]


def parts_of(text: str) -> Parts:
    """The parts of a text of any length, in one pass."""
    found = Parts([], [])
    opening = language = ""
    begun = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        mark = fence_of(line)
        if not opening:
            if mark is None:
                found.prose.append(line)
            else:
                opening, begun = mark[0], number
                language = mark[1].partition(" ")[0].lower()
        elif mark is not None and not mark[1] and mark[0].startswith(opening):
            found.blocks.append(Block(language, "\n".join(lines[begun + 1 : number]) + "\n"))
            opening = ""
    if opening:
        found.prose.extend(lines[begun:])
    return found


def fence_of(line: str) -> tuple[str, str] | None:
    """The marks of a line that opens or closes a block, and the words after them; None for another line."""
    body = line.lstrip(" ")
    if len(line) - len(body) > 3 or not body.startswith(("```", "~~~")):
        return None
    words = body.lstrip(body[0])
    return None if "`" in words else (body[: len(body) - len(words)], words.strip())
