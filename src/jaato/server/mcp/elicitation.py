"""What the client's user is asked, as forms of MCP, and what the filled-in form means."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from jaato.abc.asker import Answer, Clarification, Question
from jaato.protocol.ids import new_id
from jaato.tools.invisible_text import escape_all

MAX_SHOWN_CHARS = 8_000
MAX_FIELDS = 20
DECISIONS = {
    "allow": "y",
    "always allow": "a",
    "deny": "n",
    "never allow": "never",
}


@dataclass(frozen=True, slots=True)
class FormResponse:
    """How the user left the form; `content` is there when it was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Form:
    """A question on its way to the client's user; `response` stays None without an answer."""

    message: str
    schema: dict[str, Any]
    id: str = field(default_factory=lambda: new_id("q"))
    response: FormResponse | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)

    def respond(self, response: FormResponse | None) -> None:
        """Give the answer; the first counts."""
        if not self.answered.is_set():
            self.response = response
            self.answered.set()


def permission_form(question: Question) -> Form:
    """May this call run?"""
    words = list(DECISIONS) if question.shape is not None else ["allow", "deny"]
    lines = [f"May {question.tool} run? {question.reason}", *format_arguments(question.arguments)]
    if question.shape:
        lines.append("'always allow' would cover: " + one_line(question.shape.replace("\n", "; "), 300))
    properties = {
        "decision": {"type": "string", "title": "Decision", "enum": words, "default": "deny"},
        "comment": {"type": "string", "title": "Why not", "description": "for the model, when you deny"},
    }
    return Form("\n".join(lines), {"type": "object", "properties": properties, "required": ["decision"]})


def permission_answer(response: FormResponse | None, by: str) -> Answer:
    """What the user's form says about the call; anything but a plain yes is a no."""
    if response is None:
        return Answer(answer="c", comment="no answer in time", by=by)
    word = response.content.get("decision")
    answer = DECISIONS.get(word, "n") if response.action == "accept" and isinstance(word, str) else "n"
    comment = response.content.get("comment")
    if answer == "n" and isinstance(comment, str) and comment.strip():
        return Answer(answer="c", comment=comment.strip()[:2_000], by=by)
    return Answer(answer=answer, by=by)


def clarification_form(asked: Clarification) -> Form:
    """The model's questions, one field each."""
    properties: dict[str, Any] = {}
    for number, question in enumerate(asked.questions[:MAX_FIELDS], 1):
        entry: dict[str, Any] = {
            "type": "string",
            "title": one_line(str(question.get("question", "")), 300),
        }
        choices = [str(choice) for choice in question.get("choices") or []]
        if choices:
            entry["enum"] = list(dict.fromkeys(choices))
        default = question.get("default")
        if isinstance(default, str) and (not choices or default in choices):
            entry["default"] = default
        properties[f"answer_{number}"] = entry
    return Form(
        visible(asked.context)[:MAX_SHOWN_CHARS] or "The model asks:",
        {"type": "object", "properties": properties},
    )


def clarification_answers(response: FormResponse | None, asked: Clarification) -> list[str | None]:
    """The answers in the order of the questions, None where there is none."""
    content = response.content if response is not None and response.action == "accept" else {}
    given = [content.get(f"answer_{number}") for number in range(1, len(asked.questions) + 1)]
    return [one if isinstance(one, str) and one else None for one in given]


def format_arguments(arguments: dict[str, Any]) -> list[str]:
    """The arguments to be read by a person: nothing in them hides, and what is left out is counted."""
    lines: list[str] = []
    left = MAX_SHOWN_CHARS
    for name, value in arguments.items():
        text = visible(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
        )
        cut = f"{text[:left]} … ({len(text) - left:,} more characters)" if len(text) > left else text
        lines.append(f"{visible(name)}: {cut}")
        left = max(200, left - len(text))
    return lines


def visible(text: str) -> str:
    """Text with characters that cannot be seen, or change how others are seen, written out."""
    return "\n".join(map(escape_all, text.split("\n")))


def one_line(text: str, limit: int) -> str:
    """Text on one line of at most this many characters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
