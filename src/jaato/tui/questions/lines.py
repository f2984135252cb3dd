"""The lines of a question: what a call would do, in full and inert, and what an answer covers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jaato.cli.output.console import one_line, visible
from jaato.cli.output.wording import Line, indent_argument
from jaato.cli.repl.questions import argument_lines, condition_lines, local_time, question_lines
from jaato.protocol.events import ClarificationQuestion, PermissionRequested
from jaato.tui.transcript.diffs import lay_out_diff
from jaato.tui.transcript.lines import Lines, clean
from jaato.tui.transcript.looks import Looks

Question = PermissionRequested | ClarificationQuestion
ANSWERS = (
    ("y", "y", "yes"),
    ("n", "n", "no"),
    ("a", "a", "always"),
    ("t", "t", "this turn"),
    ("i", "i", "until idle"),
    ("o", "once", "once"),
    ("N", "never", "never"),
    ("A", "all", "all pending"),
    ("e", "e", "edit"),
    ("c", "c", "no + comment"),
)
"""The keys of the documented answers, the answers, and their meaning."""
LASTING = ("a", "t", "i")
"""The answers that allow other calls, too, where the question says which."""
HEADS = re.compile(r"^--- (.*)\n\+\+\+ (.*)\n", re.MULTILINE)
"""The two lines that name a file in a unified diff."""


def format_title(question: Question, name: str, number: int) -> str:
    """What is asked, by whom, and how many wait."""
    prefix = f"{one_line(name, 40)}: " if name else ""
    of = f"1 of {number} · " if number > 1 else ""
    if isinstance(question, PermissionRequested):
        return f"{of}{prefix}May {one_line(question.tool, 60)} run?"
    return f"{of}{prefix}{'The agent has' if not name else 'has'} {format_question_count(len(question.questions))}"


def format_question_count(number: int) -> str:
    """A number of questions."""
    return "a question" if number == 1 else f"{number} questions"


def list_answers(question: PermissionRequested) -> list[tuple[str, str, str]]:
    """The keys, answers and meanings that a question takes; the lasting ones only where they cover more than its call."""
    known = set(question.options)
    return [
        one for one in ANSWERS if (not known or one[1] in known) and (question.shape or one[1] not in LASTING)
    ]


def lay_out_question(question: Question, width: int, looks: Looks) -> Lines:
    """The lines of a question."""
    if isinstance(question, ClarificationQuestion):
        return lay_out_clarification(question, width, looks)
    found = Lines()
    add_lines(found, argument_lines(question), width, looks)
    diff = drop_heads(clean(visible(question.preview)), question) if question.preview else ""
    if diff and question.access is None:
        found.join(lay_out_diff(diff, width, looks))
    add_lines(found, condition_lines(question), width, looks)
    if diff and question.access is not None:  # what a yes opens is read before the change
        found.join(lay_out_diff(diff, width, looks))
    return found


def add_lines(found: Lines, lines: Iterable[Line], width: int, looks: Looks) -> None:
    """Add lines with their looks, not indented; those without one are not broken between words."""
    for line, look in lines:
        add = found.add_words if look else found.add_plain
        add(clean(line.removeprefix("  ")), width, looks.named(look))


def drop_heads(diff: str, question: PermissionRequested) -> str:
    """The diff of a call without the lines that name the file, if that is the one of its argument `path`."""
    found = HEADS.match(diff)
    path = question.arguments.get("path")
    is_same = found is not None and isinstance(path, str) and found[2] == clean(visible(path))
    if found is None or not is_same or HEADS.search(diff, found.end()) is not None:
        return diff
    return diff[found.end() :] if found[1] == found[2] else f"--- {found[1]}\n{diff[found.end() :]}"


def lay_out_whole(question: PermissionRequested, width: int, looks: Looks) -> Lines:
    """Every argument of a call, and what `always` would cover, unabridged."""
    found = Lines()
    for name, value in question.arguments.items():
        found.add_plain(clean(indent_argument(name, value, whole=True)), width, looks.text)
    if question.shape:
        text = indent_argument("'always' would cover", question.shape, whole=True)
        found.add_plain(clean(text), width, looks.dim)
    return found


def lay_out_clarification(question: ClarificationQuestion, width: int, looks: Looks) -> Lines:
    """The lines of the agent's questions."""
    found = Lines()
    if question.context:
        found.add_words(clean(visible(question.context)), width, looks.strong)
    for number, one in enumerate(question.questions, 1):
        first, *choices, _prompt = question_lines(one)
        found.add_words(f"{number}. {clean(visible(first))}", width, looks.text)
        for choice in choices:
            found.add_words(f"   {clean(visible(choice))}", width, looks.dim)
    if question.deadline:
        found.add_words(f"defaults are used from {local_time(question.deadline)}", width, looks.dim)
    return found
