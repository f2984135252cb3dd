"""A permission question as text for a terminal: nothing in it can move the cursor or hide a part of it."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata

from jaato.abc.asker import Question

MAX_LINES = 60
MAX_MARKS = 3
BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and show nothing."""
MAX_CHARS = 4_000


def question_text(question: Question) -> str:
    """Tool, arguments or change, the part that needs asking, and what a lasting answer would cover."""
    lines = [f"May {visible(question.tool)} run?", *arguments_lines(question)]
    lines.append(f"  why asked: {visible(question.reason)}")
    if question.shape is None:
        lines.append("  always, turn and idle count for this call only")
    else:
        lines.append("  always, turn and idle would cover: " + visible(question.shape.replace("\n", "; ")))
    return "\n".join(lines)


def arguments_lines(question: Question) -> list[str]:
    """The arguments one by one; a replacement as a diff."""
    arguments = dict(question.arguments)
    old, new = arguments.get("old"), arguments.get("new")
    diff: list[str] = []
    if isinstance(old, str) and isinstance(new, str):
        del arguments["old"], arguments["new"]
        changed = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="")
        diff = [f"    {visible(line)}" for line in list(changed)[:MAX_LINES]]
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
        shown = text[:MAX_CHARS].split("\n")
        lines.append(f"  {visible(name)}: {visible(shown[0])}")
        lines += [f"    {visible(line)}" for line in shown[1:MAX_LINES]]
        hidden = len(text) - sum(len(line) + 1 for line in shown[:MAX_LINES]) + 1
        if hidden > 0:
            lines.append(f"    ... and {hidden:,} characters more, which are not shown")
    return [*lines, *diff]


def visible(text: str) -> str:
    """Text with every control and invisible character spelled out, and no more than a few marks on one letter."""
    built, marks = [], 0
    for char in text:
        if char.isascii():
            marks = 0
            built.append(char if " " <= char <= "~" else escaped(char))
            continue
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        seen = char.isprintable() and category != "Cf" and BLANK.match(char) is None and marks <= MAX_MARKS
        built.append(char if seen else escaped(char))
    return "".join(built)


def escaped(char: str) -> str:
    """One character as its code."""
    return char.encode("unicode_escape", "backslashreplace").decode("ascii") if char != "\t" else "    "
