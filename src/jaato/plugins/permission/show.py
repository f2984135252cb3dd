"""A permission question as text for a terminal: nothing in it can move the cursor or hide a part of it."""

from __future__ import annotations

import difflib
import json

from jaato.abc.asker import Question
from jaato.tools.access import access_lines
from jaato.tools.unseen import visible

MAX_LINES = 60
MAX_CHARS = 4_000


def question_text(question: Question) -> str:
    """Tool, arguments or change, what a yes opens, the part that needs asking, and what a lasting answer would cover."""
    lines = [f"May {visible(question.tool)} run?", *arguments_lines(question)]
    if question.access is not None:
        lines += ["  a yes opens:", *(f"    {line}" for line in access_lines(question.access))]
    lines.append(f"  why asked: {visible(question.reason)}")
    if question.shape is None:
        lines.append("  whatever is answered counts for this call only")
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
