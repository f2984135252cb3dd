"""Messages as users write them: code fences of Markdown, `@` mentions outside them, and `/NAME` at the beginning."""

from __future__ import annotations

import re
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


SLASH = re.compile(r"/([A-Za-z0-9][A-Za-z0-9._-]{0,55})(?=\s|\Z)")
"""A stored prompt or a command, at the beginning of a message; a path has another slash."""


def slash_name(text: str) -> str:
    """The name in a message that begins with `/NAME`; empty for another message."""
    found = SLASH.match(text)
    return found[1] if found is not None else ""


MENTION = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@(?:\"([^\"\n]{1,300})\"|([^\s\"'`<>|;]{1,300}))")
SENTENCE = re.compile(r"[\w,.:;!?)] $")
"""How a line begins before a name without a dot or slash; `@property` after blanks alone is a decorator."""
ENDINGS = ".,:!?)]}"


def mentions(text: str, most: int) -> list[str]:
    """The first names, each once, in their order.

    Fenced code is passed over. A plain word counts in a sentence or at the start of a line, but not alone above a
    line of something else, as decorators are: `@./word` names such a file anywhere.
    """
    if "@" not in text:
        return []
    found: list[list[str]] = []
    code_below = False
    for line in reversed(parts_of(text).prose):
        bare = line.strip()
        if not bare:
            code_below = False
        elif "@" not in line:
            code_below = True
        else:
            alone = bare.startswith("@") and " " not in bare
            found.append([] if alone and code_below and is_word(bare[1:]) else names_in(line))
            code_below = code_below or not alone
    ordered = (name for names in reversed(found) for name in names)
    return list(dict.fromkeys(ordered))[:most]


def names_in(line: str) -> list[str]:
    """The names in one line."""
    names: list[str] = []
    for match in MENTION.finditer(line):
        quoted, plain = match.groups()
        name = quoted or plain.rstrip(ENDINGS)
        begins = match.start() == 0 or SENTENCE.search(line, max(0, match.start() - 2), match.start())
        if name and (quoted or begins or not is_word(plain)):
            names.append(name)
    return names


def is_word(name: str) -> bool:
    """Whether a name may as well be a decorator: letters and digits, perhaps called."""
    return re.match(r"\w+(?:$|[^\w./-])", name) is not None
