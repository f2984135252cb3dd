"""Answers to questions, in the words that every client shows; the page has the same ones in `wording.ts`."""

from __future__ import annotations

from jaato.cli.output.console import one_line
from jaato.protocol.events import ClarificationResolved, PermissionResolved

MAX_NAME_CHARS = 80
MAX_ANSWER_CHARS = 300
ANSWERED = "answered"
"""What the server has for the answer to questions of the agent."""
ANSWER_WORDS = {
    "y": "yes",
    "n": "no",
    "a": "always",
    "t": "yes, for this turn",
    "i": "yes, until idle",
    "once": "yes, once",
    "never": "never",
    "all": "yes, to all pending",
    "e": "yes, with edited arguments",
    "c": "no, with a comment",
}


def answer_words(answer: str) -> str:
    """A documented answer in words, any other as it is."""
    return ANSWER_WORDS.get(answer, one_line(answer, MAX_ANSWER_CHARS))


def other_answer_text(event: PermissionResolved | ClarificationResolved) -> str:
    """The line about an answer that another client gave."""
    if isinstance(event, PermissionResolved):
        comment = f": {event.permission.reason}" if event.answer == "c" else ""
        answer = f"{answer_words(event.answer)}{comment}"
    else:
        answer = "; ".join("(no answer)" if one is None else one for _, one in event.qa_pairs)
    return f"{one_line(event.by, MAX_NAME_CHARS)} answered: {one_line(answer, MAX_ANSWER_CHARS)}"


def late_answer_text(by: str, answer: str) -> str:
    """The line for an answer that came after that of another client."""
    words = "" if answer == ANSWERED else f": {answer_words(answer)}"
    return f"{one_line(by, MAX_NAME_CHARS) or 'Another client'} already answered{words}"
