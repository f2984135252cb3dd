"""Compaction summaries: the note that stands for removed messages, and the transcript to be summarized."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaato.agent.compaction.record import one_line, record_lines, shorten
from jaato.agent.state import State
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, Message, Part, Refusal, Text, ToolCall, ToolResult
from jaato.protocol.specs import ContextRecord
from jaato.tools.call import replace_surrogates

MAX_SAID_CHARS = 500
MOST_PIN_CHARS = 60_000
MAX_TASKS, MAX_STEPS_CHARS, LEAST_STEP_CHARS, TITLE_CHARS = 50, 4_000, 12, 200
SIGNS = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-", "pending": " "}


class Note(NamedTuple):
    """What the first message after a compaction says: how much was removed, the record, its size and that of the pins in
    characters."""

    removed: int
    cleared: int
    record: ContextRecord
    most_chars: int
    pin_chars: int = MOST_PIN_CHARS


def note_message(state: State, note: Note) -> Message:
    """The message that stands for what was removed: record, pins, rules of the session, running tasks, the open plan with
    every step, long ones cut."""
    lines = ["[system] The context was compacted."]
    if note.removed:
        lines.append(f"{note.removed} earlier messages were left out to make room.")
    if note.cleared:
        lines.append(
            f"{note.cleared} old tool results were cleared; readFile with the handle in each reads all of it."
        )
    lines += record_lines(note.record, note.most_chars)
    lines += pin_lines(state.pins, note.pin_chars)
    lines += rule_lines(state)
    running = [task for task in state.tasks.values() if task.status == "running"]
    lines += [
        f"Background task {task.task_id} ({truncate(task.tool, 64)}) still runs."
        for task in running[-MAX_TASKS:]
    ]
    plan = state.plan
    if plan is not None and plan.status in ("draft", "active"):
        room = max(LEAST_STEP_CHARS, MAX_STEPS_CHARS // max(1, len(plan.steps)))
        lines.append(f"Your open plan {plan.id}: {one_line(plan.title, TITLE_CHARS)}")
        lines += [
            f"[{SIGNS[step.status]}] {step.id}: {one_line(step.description, room)}" for step in plan.steps
        ]
    return Message("user", [Text("\n".join(lines))], id=new_id("m"), source="system")


def pin_lines(pins: Mapping[str, str], most_chars: int) -> list[str]:
    """The pins; in a context that has become too small for all of them the newest, the last one cut, and which ones are not
    kept."""
    kept = dict(pins)
    while len(kept) > 1 and sum(map(len, kept.values())) > most_chars:
        del kept[next(iter(kept))]
    lines = (
        ["Pinned by the user:", *(f"- {shorten(text, most_chars)}" for text in kept.values())] if kept else []
    )
    if left := [pin_id for pin_id in pins if pin_id not in kept]:
        lines.append(f"Pins that do not fit into this context, and are not kept: {', '.join(left)}.")
    return lines


def rule_lines(state: State) -> list[str]:
    """The constraints that the session itself sets: its mode, lasting denials, disabled tools."""
    lines = [f"The permission mode is {state.mode}."] if state.mode not in (None, "ask") else []
    denied = [grant.tool for grant in state.grants.values() if grant.effect == "deny"][-MAX_TASKS:]
    if denied:
        lines.append(f"The user has denied for good: {', '.join(dict.fromkeys(denied))}.")
    if state.disabled:
        lines.append(f"Switched off: {', '.join(sorted(state.disabled)[:MAX_TASKS])}.")
    return lines


SUMMARY_HEAD = "[system] Summary of the conversation before, in the model's own words:\n"
LINE_CHARS = 4_000
"""The most characters of one part; fewer where the whole would be too long."""
LEAST_LINE_CHARS = 120
DEFAULT_CHARS, MOST_CHARS = 100_000, 400_000
SUMMARY_PART, LEAST_SUMMARY_CHARS, MOST_SUMMARY_CHARS = 0.2, 1_000, 16_000
SUMMARY_ROOM = 0.15
"""The part of the room for the conversation that a summary may take."""
TRANSCRIPT_PART = 0.75
"""Parts of the context in characters for each token of it: safe where a character is a token, as in Chinese."""
REQUESTS, REQUEST_CHARS = 20, 300


def is_summary(message: Message) -> bool:
    """Whether this is what a collection before has left in place of what it summarised."""
    return message.source == "system" and message.text.startswith(SUMMARY_HEAD)


def transcript(history: Sequence[Message], most_chars: int) -> str:
    """The conversation as text, oldest first, in at most about so many characters.

    Long parts are cut in their middle; where that is not enough the oldest lines are left out. An earlier summary
    stays whole.
    """
    known = [message.text.removeprefix(SUMMARY_HEAD) for message in history if is_summary(message)]
    head = "".join(f"What was summarised before:\n{text}\n\n" for text in known)
    messages = [message for message in history if not is_summary(message)]
    room = max(LEAST_LINE_CHARS, most_chars - len(head))
    each = LINE_CHARS
    lines = lines_of(messages, each)
    while sum(map(len, lines)) > room and each > LEAST_LINE_CHARS:
        each = max(LEAST_LINE_CHARS, each // 2)
        lines = lines_of(messages, each)
    size = sum(map(len, lines))
    gone = 0
    while size > room and gone < len(lines) - 1:
        size -= len(lines[gone])
        gone += 1
    if gone:
        lines = [f"({gone} older lines are left out)", *lines[gone:]]
    return head + "\n".join(lines)


def requests_of(history: Sequence[Message]) -> str:
    """The requests in a part of the conversation that is not transcribed: the newest of it, each cut."""
    asked = [m.text for m in history if m.role == "user" and m.source in ("user", "parent") and m.text]
    return "\n".join(f"- {shorten(text, REQUEST_CHARS)}" for text in asked[-REQUESTS:])


def lines_of(history: Sequence[Message], each: int) -> list[str]:
    """One line or paragraph for each part of these messages."""
    return [line for message in history for part in message.parts if (line := line_of(message, part, each))]


def line_of(message: Message, part: Part, each: int) -> str:
    """A part as text; empty for what is not transcribed, such as thoughts."""
    match part:
        case Text(text=text):
            who = message.source if message.role == "user" else message.role
            return f"{who}: {shorten(text, each)}" if text.strip() else ""
        case Refusal(text=text):
            return f"{message.role} declined: {shorten(text, each)}"
        case ToolCall():
            return f"call {part.name} {shorten(compact(part.arguments), each)}"
        case ToolResult():
            output = " ".join(part.texts)
            text = part.error.message if part.error is not None else output
            return f"result of {part.name}{'' if part.ok else ', failed'}: {shorten(text, each)}"
        case Media():
            return f"({part.mime_type} {part.name or ''})"
    return ""


def compact(arguments: dict[str, Any]) -> str:
    """Arguments on one line."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str)


def transcript_chars(usage: dict[str, Any]) -> int:
    """How long a transcript may be so that the model can read it beside its instructions."""
    limit = usage.get("context_limit")
    return min(MOST_CHARS, max(2_000, int(limit * TRANSCRIPT_PART))) if limit else DEFAULT_CHARS


def summary_chars(usage: dict[str, Any]) -> int:
    """How long a summary may be: a small part of the context."""
    limit, room = usage.get("context_limit"), usage.get("room_chars")
    most = MOST_SUMMARY_CHARS if not limit else limit * SUMMARY_PART
    if room is not None:
        most = min(most, room * SUMMARY_ROOM)
    return int(min(MOST_SUMMARY_CHARS, max(LEAST_SUMMARY_CHARS, most)))


def truncate(text: str, limit: int = MAX_SAID_CHARS) -> str:
    """The text, cut where it is long."""
    return replace_surrogates(text if len(text) <= limit else text[: limit - 1] + "…")
