"""Parse a shell line with tree-sitter, and confirm the result with a second, simpler lexer."""

from __future__ import annotations

import functools
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

from jaato.protocol.codec import is_unicode
from jaato.tools.shell.syntax import Analysis, Part, SyntaxVisitor
from jaato.tools.shell.words import OPERATORS, lex

if TYPE_CHECKING:
    from tree_sitter import Parser

MAX_CHARS = 16_384
CONTINUATION = "\\\n"
MAX_BRACKETS = 100
"""How deep brackets may nest before the parser, which is slow on unclosed ones, is even tried."""


@functools.cache
def parser() -> Parser:
    """The one parser, made at the first shell command."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def unreadable(command: str) -> str | None:
    """Why a command is not even parsed: too long, not text, or with characters that shells and parsers
    read differently."""
    if len(command) > MAX_CHARS:
        return f"is {len(command):,} characters long, more than the {MAX_CHARS:,} that are looked at"
    if not is_unicode(command):
        return "is not valid UTF-8"
    for char in set(command):
        if char in " \t\n" or " " < char <= "~":
            continue
        if (
            ord(char) < 0xA0
            or char.isspace()
            or unicodedata.category(char) in ("Cf", "Cc", "Zs", "Zl", "Zp", "Cn")
        ):
            return f"contains the character U+{ord(char):04X}"
    depth = 0
    for char in command:
        depth += (char in "([{") - (char in ")]}" and depth > 0)
        if depth > MAX_BRACKETS:
            return f"nests more than {MAX_BRACKETS} brackets"
    return None


@functools.lru_cache(maxsize=256)
def parse_command(command: str) -> Analysis:
    """Take a shell command apart; bounded in time for any input, never raises."""
    reason = unreadable(command)
    if reason is not None:
        return Analysis(command[:200], unknown=(f"the command {reason}",))
    if not command.strip():
        return Analysis(command, unknown=("the command is empty",))
    root = parser().parse(command.encode()).root_node
    walk = SyntaxVisitor(command)
    walk.visit(root, 0, ())
    if CONTINUATION in command:
        walk.constructs.append("continues a line with a backslash")
    found = walk.result()
    if found.unknown or found.constructs or any(is_dynamic(part) for part in found.parts):
        return found  # no rule for a part covers it, so the second reading has nothing to add
    if not is_confirmed_by_lexer(found, command):
        return replace(found, unknown=("two readings of the command disagree",))
    return found


def is_dynamic(part: Part) -> bool:
    """Whether a part holds something that bash computes, so that it is never covered."""
    return bool(part.doubts) or any(word.value is None for word in part.words)


def is_confirmed_by_lexer(found: Analysis, command: str) -> bool:
    """Whether the second, simpler reading sees the same commands in the same order with the same
    operators."""
    tokens = lex(command)
    if tokens is None:
        return False
    commands: list[list[str]] = [[]]
    operators = []
    for token in tokens:
        if token in OPERATORS:
            commands.append([])
            operators.append(token)
        else:
            commands[-1].append(token)
    seen = [list(part.tokens) for part in found.parts]
    separators = [one for one in operators if one != "\n"]
    return [one for one in commands if one] == seen and separators == [
        o for o in found.operators if o != "\n"
    ]
