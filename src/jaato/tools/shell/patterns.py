"""Patterns over shell commands such as `git *`: matched word by word."""

from __future__ import annotations

import fnmatch
import functools
import os
import re

import msgspec

from jaato.tools.shell.parser import Part
from jaato.tools.shell.programs import base_name, interprets, runs_others
from jaato.tools.shell.words import Word, lex, read_piece, read_word


class PatternWord(msgspec.Struct, frozen=True):
    """One word of a pattern: the exact text, or an expression over it."""

    text: str
    expression: re.Pattern[str] | None
    rest: bool = False
    """It is a last `*`: it covers any further words, or none."""

    def matches(self, value: str) -> bool:
        """Whether it covers this word; a path with `..` must also be covered where it leads to."""
        if self.expression is None:
            return value == self.text
        forms = (value, os.path.normpath(value)) if ".." in value.split("/") else (value,)
        return all(self.expression.match(form) is not None for form in forms)


class ShellPattern(msgspec.Struct, frozen=True):
    """A pattern over commands, word by word; several commands when it is a whole pipeline."""

    text: str
    commands: tuple[tuple[PatternWord, ...], ...]

    def covers(self, parts: tuple[Part, ...], moved: bool = False) -> bool:
        """Whether it covers this command, or this whole pipeline; `moved` when it may run in another directory."""
        return len(parts) == len(self.commands) and all(
            covers_words(words, part.words) and not (moved and names_file(words))
            for words, part in zip(self.commands, parts, strict=True)
        )


@functools.lru_cache(maxsize=1024)
def shell_pattern(text: str) -> ShellPattern | None:
    """A pattern from its text: words as in a shell, `*`, `?` and `[…]` outside quotes are wild; None when
    it is none."""
    tokens = lex(text)
    if not tokens:
        return None
    commands: list[list[PatternWord]] = [[]]
    for token in tokens:
        if token == "|":  # noqa: S105 an operator
            commands.append([])
        elif token in ("|&", "&&", "||", ";", "&", "\n", "(", ")"):
            return None
        else:
            word = read_word(token)
            if word.value is None:
                return None
            glob = re.compile(fnmatch.translate(glob_text(token))) if word.glob else None
            commands[-1].append(PatternWord(word.value, glob))
    for words in commands:
        if not words:
            return None
        last = words[-1]
        if last.expression is not None and last.text == "*" and len(words) > 1:
            words[-1] = PatternWord(last.text, last.expression, rest=True)
    return ShellPattern(text, tuple(tuple(words) for words in commands))


def glob_text(token: str) -> str:
    """A word of a pattern for fnmatch, with what was quoted made literal."""
    built = []
    position = 0
    while position < len(token):
        piece, shown, position = read_piece(token, position)
        quoted = shown.startswith("\0")
        built.append("".join(f"[{c}]" if quoted and c in "*?[" else c for c in piece or ""))
    return "".join(built)


def covers_words(pattern: tuple[PatternWord, ...], words: tuple[Word, ...]) -> bool:
    """Whether a pattern covers the words of one command; never what the words do not say by themselves."""
    program = words[0].literal if words else None
    if program is None or (len(words) > len(pattern) and not pattern[-1].rest):
        return False
    first = pattern[0]
    if (runs_others(program) or interprets(program)) and first.expression is not None:
        return False
    if not (first.matches(program) or first.matches(base_name(program))):
        return False
    named = pattern[:-1] if pattern[-1].rest else pattern
    if len(words) < len(named):
        return False
    for index, one in enumerate(named[1:], 1):
        word = words[index]
        if word.literal is None or not one.matches(word.literal):
            return False
    return all(is_plain(word) for word in words[max(len(named), 1) :])


def names_file(pattern: tuple[PatternWord, ...]) -> bool:
    """Whether a pattern lets an interpreter run something by name, which is another thing in another directory."""
    named = pattern[1:-1] if pattern[-1].rest else pattern[1:]
    return interprets(pattern[0].text) and any(not word.text.startswith(("-", "/")) for word in named)


def is_plain(word: Word) -> bool:
    """Whether the `*` at the end of a pattern covers this word: what it stands for is known, and no file name in it can be
    an option."""
    return word.value is not None and (not word.glob or word.value[:1] not in ("-", "*", "?", "[", ""))
