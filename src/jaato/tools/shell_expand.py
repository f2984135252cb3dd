"""What a word that bash computes may stand for, as far as the line itself says; only ever used to be more careful."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_FORMS = 64
BRACES = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
NAME = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|[uU]([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
UNKNOWN = "*"


def forms_of(text: str, variables: Mapping[str, str]) -> list[str]:
    """The texts a word may become, `*` for what cannot be told, `.*` for more than 64 of them."""
    waiting, found = [text], list[str]()
    while waiting and len(found) < MAX_FORMS:
        one = waiting.pop()
        braces = BRACES.search(one)
        if braces is None:
            found.append(unquoted(one, variables))
        else:
            choices = braces[1].split(",")[:MAX_FORMS]
            waiting += [one[: braces.start()] + choice + one[braces.end() :] for choice in choices]
    return [*found, ".*"] if waiting else found


def unquoted(text: str, variables: Mapping[str, str]) -> str:
    """A word without its quotes, its variables replaced by what the line set them to."""
    built: list[str] = []
    position, quoted = 0, False
    while position < len(text):
        char = text[position]
        if char == "'" and not quoted:
            end = closing(text, position + 1, "'")
            built.append(text[position + 1 : end])
            position = end + 1
        elif text.startswith("$'", position) and not quoted:
            end = closing_ansi(text, position + 2)
            built.append(ESCAPE.sub(escaped, text[position + 2 : end]))
            position = end + 1
        elif char == '"':
            quoted = not quoted
            position += 1
        elif char == "\\":
            built.append(text[position + 1 : position + 2])
            position += 2
        elif char == "$" and text[position + 1 : position + 2] != '"':
            piece, position = dollar(text, position, variables)
            built.append(piece)
        elif char == "`":
            built.append(UNKNOWN)
            position = closing(text, position + 1, "`") + 1
        else:
            built.append("" if char == "$" else char)
            position += 1
    return "".join(built)


def dollar(text: str, position: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What stands for an expansion that begins here, and where the text goes on."""
    named = NAME.match(text, position)
    if named is not None:
        return variables.get(named[1] or named[2], UNKNOWN), named.end()
    opening = text[position + 1 : position + 2]
    if opening not in ("(", "{"):
        return UNKNOWN, position + 2
    depth, end = 0, position + 1
    while end < len(text):
        depth += (text[end] in "({") - (text[end] in ")}")
        end += 1
        if depth == 0:
            break
    return UNKNOWN, end


def escaped(match: re.Match[str]) -> str:
    """One backslash sequence of `$'…'`."""
    wide, octal = match[1] or match[2], match[3]
    code = int(wide, 16) if wide else int(octal, 8) if octal else None
    if code is None:
        return {"n": "\n", "t": "\t", "r": "\r"}.get(match[4], match[4])
    return chr(code) if code <= 0x10FFFF else UNKNOWN


def closing(text: str, position: int, quote: str) -> int:
    """Where the next quote stands, or the end."""
    end = text.find(quote, position)
    return len(text) if end < 0 else end


def closing_ansi(text: str, position: int) -> int:
    """Where `$'…'` closes: the next quote without a backslash."""
    while position < len(text) and text[position] != "'":
        position += 2 if text[position] == "\\" else 1
    return min(position, len(text))
