"""The parts of a patch, and the names and modes in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jaato.errors import ToolError

ESCAPE = re.compile(r"\\([0-7]{3}|.)")
PREFIX = re.compile(r"^[abciow]/")
NULL = "/dev/null"
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class PatchRefused(ToolError):
    """The patch cannot be understood, or does not fit."""

    code = "patch_refused"


@dataclass(slots=True)
class Hunk:
    """One change: lines by their sign, ` `, `-` or `+`; `start` is the first old line, None when unknown.

    `anchor` is a line that comes before. `ends` says that it reaches the end of the file; the other two, that the old
    or the new text has no newline there.
    """

    start: int | None
    head: str
    anchor: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    ends: bool = False
    old_open: bool = False
    new_open: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that will be there."""
        return [text for sign, text in self.lines if sign != "-"]


@dataclass(slots=True)
class FilePatch:
    """What happens to one file: `old` is None for a new one, `new` for one that is removed."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)
    mode: int | None = None
    copies: bool = False
    whole: bool = False
    """Removed as it is, without naming its lines."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return self.new or self.old or ""


def without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Two names without the directories git puts before them: `a/` and `b/`, or others, on either side."""
    prefixed = [PREFIX.match(name) is not None for name in (old, new)]
    if NULL in (old, new):
        return PREFIX.sub("", old), PREFIX.sub("", new)
    return (old[2:], new[2:]) if all(prefixed) and old[0] != new[0] else (old, new)


def git_names(rest: str) -> tuple[str | None, str | None]:
    """The two names after `diff --git`, None where they cannot be told."""
    if rest.startswith('"'):
        end = re.match(r'"((?:[^"\\]|\\.)*)" ', rest)
        return without_prefixes(unquoted(end[0].strip()), path_of(rest[end.end() :])) if end else (None, None)
    half = (len(rest) - 1) // 2
    old, new = without_prefixes(rest[:half], rest[half + 1 :])
    if old == new:
        return old, new
    parts = rest.split(" ")
    return without_prefixes(parts[0], path_of(parts[1])) if len(parts) == 2 else (None, None)


def path_of(text: str) -> str:
    """A path as a patch writes it: perhaps quoted, perhaps with a time behind a tab."""
    text = text.partition("\t")[0].rstrip() if not text.startswith('"') else text.rstrip()
    return unquoted(text) if text.startswith('"') else text


def unquoted(text: str) -> str:
    """A path in git's quotes; its bytes are octal."""
    inner = text[1 : text.rindex('"')] if text.count('"') > 1 else text[1:]

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if len(code) == 3 else LETTERS.get(code, code)

    try:
        return ESCAPE.sub(plain, inner).encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return inner


def mode_of(text: str) -> int:
    """A file's mode in git's notation. Raises `PatchRefused` for links and repositories."""
    try:
        mode = int(text, 8)
    except ValueError:
        raise PatchRefused(f"{text[:20]!r} is no mode of a file.") from None
    if mode & 0o170000 not in (0, 0o100000):
        raise PatchRefused(
            "The patch makes a link or a submodule, which is not done here. Use run with git apply."
        )
    return mode & 0o777
