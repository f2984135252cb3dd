"""The record of a conversation, folded from its log: what a compaction keeps without the help of a model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from jaato.errors import ToolError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.events import (
    ClarificationResolved,
    Event,
    MessageModel,
    MessageUser,
    PlanUpdated,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
    WorkspaceFilesChanged,
)
from jaato.protocol.messages import ToolCall
from jaato.protocol.specs import CommandRun, ContextRecord, FileTouch
from jaato.tools.filesystem.containment import Roots

MAX_REQUESTS, MAX_CONSTRAINTS, MAX_DONE, MAX_FILES, MAX_COMMANDS, MAX_DECISIONS = 20, 60, 40, 300, 100, 40
MAX_TOOLS, MAX_CALLS, MAX_PER_MESSAGE = 40, 12, 20
FIRST_CONSTRAINTS = 20
"""Of too many constraints so many stay from the beginning of the session; the others are the newest."""
REQUEST_CHARS, CONSTRAINT_CHARS, LINE_CHARS, PATH_CHARS = 400, 300, 200, 300
REQUESTS_PART, CONSTRAINTS_PART, LEAST_REST_PART = 0.25, 0.35, 0.4
LEAST_CONSTRAINT_CHARS = 60
MAX_HASHED_BYTES, MAX_HASHED_IN_ALL_BYTES = 8_000_000, 100_000_000
CHUNK_BYTES = 1 << 18
T = TypeVar("T")

CONSTRAINT = lazy_pattern(
    r"\b(never|always|do not|don.?t|must|mustn.?t|should(n.?t)?|only|avoid|without|ensure|make sure|at (most|least)"
    r"|no more than|not allowed|forbidden|required?|remember|important|keep|instead of|under no circumstances"
    r"|nie(mals)?|immer|darf|dürfen|muss|müssen|nicht|kein\w*|nur|jamais|toujours|il faut|doit|ne .{1,40} pas"
    r"|nunca|siempre|debes?|solo|sempre|mai|deve)\b|不要|不得|必须|必須|禁止|总是|總是|絶対|ないで|しないこと",
    re.IGNORECASE,
)
"""Words of a sentence that sets a rule, in the languages most often used."""
SENTENCE = lazy_pattern(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")
PATH_ARGUMENTS = ("path", "file_path", "file", "filename", "notebook_path", "source", "destination")


class RecordFold:
    """Folds the events of one agent into a record; begins with the one of the compaction before."""

    def __init__(self, record: ContextRecord) -> None:
        self._goal = record.goal
        self._requests = list(record.requests)
        self._constraints = list(record.constraints)
        self._done = list(record.done)
        self._files = {file.path: file for file in record.files}
        self._commands = list(record.commands)
        self._decisions = list(record.decisions)
        self._tools = dict(record.tools)
        self._calls = list(record.calls)
        self._open_calls: dict[str, ToolCall] = {}
        self._effects: set[str] = set()
        self._last_text = ""
        self._touched: set[str] = set()

    def take(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case MessageUser():
                self._take_request(event)
            case MessageModel():
                self._open_calls |= {call.call_id: call for call in event.message.function_calls}
                self._last_text = event.message.text if event.message.text.strip() else self._last_text
            case ToolCallStart() if event.digest is not None:
                self._effects.add(event.call_id)
            case ToolCallEnd():
                self._take_call(event)
            case WorkspaceFilesChanged():
                for file in event.files:
                    self._touch(file.path, file.change)
            case ClarificationResolved():
                for question, answer in event.qa_pairs:
                    if answer is not None:
                        line = (
                            f"asked: {one_line(question, LINE_CHARS)} answer: {one_line(answer, LINE_CHARS)}"
                        )
                        push(self._decisions, line, MAX_DECISIONS)
            case PlanUpdated() if event.plan.status == "completed":
                push(self._done, f"plan completed: {one_line(event.plan.title, LINE_CHARS)}", MAX_DONE)
            case TurnCompleted():
                if event.reason == "stop" and self._last_text:
                    push(self._done, one_line(self._last_text, LINE_CHARS), MAX_DONE)
                self._last_text = ""

    def _take_request(self, event: MessageUser) -> None:
        message = event.message
        text = message.words.removeprefix("[parent] ")
        if message.source not in ("user", "parent") or not text.strip():
            return
        shown = one_line(text, REQUEST_CHARS)
        self._goal = self._goal or shown
        push(self._requests, shown, MAX_REQUESTS)
        for sentence in constraints_in(text):
            push(self._constraints, sentence, MAX_CONSTRAINTS, FIRST_CONSTRAINTS)

    def _take_call(self, event: ToolCallEnd) -> None:
        call = self._open_calls.pop(event.call_id, None)
        if call is None:
            return  # a user's own, or one of a background task
        arguments, result = call.arguments, event.result
        use = "used" if event.call_id in self._effects else "read"
        self._effects.discard(event.call_id)
        if event.permission is not None and event.permission.decision == "denied":
            reason = one_line(event.permission.reason, LINE_CHARS)
            push(self._decisions, f"denied: {call_text(call)} ({reason})", MAX_DECISIONS)
        succeeded, failed = self._tools.pop(event.tool, (0, 0))
        self._tools[event.tool] = (succeeded + result.ok, failed + (not result.ok))
        push(self._calls, f"{call_text(call)}: {'ok' if result.ok else 'failed'}", MAX_CALLS)
        for name in PATH_ARGUMENTS:
            path = arguments.get(name)
            if (
                result.ok
                and isinstance(path, str)
                and path
                and len(path) <= PATH_CHARS
                and ":" not in path[:10]
            ):
                known = self._files.get(path)
                kept = known is not None and known.change not in ("read", "used")
                self._touch(path, known.change if known is not None and kept else use)
        command = arguments.get("command")
        if isinstance(command, str) and command.strip():
            words = " ".join(map(str, [command, *(arguments.get("args") or ())]))
            push(self._commands, CommandRun(one_line(words, LINE_CHARS), result.exit_code), MAX_COMMANDS)

    def _touch(self, path: str, change: Any) -> None:
        before = self._files.pop(path, None)
        if before is not None and before.change == "created" and change == "modified":
            change = "created"
        self._files[path] = FileTouch(path, change, before.sha256 if before is not None else "")
        self._touched.add(path)

    def paths_to_hash(self) -> list[str]:
        """The newest paths that these events have touched, whose hashes may have changed."""
        return [path for path in list(self._files)[-MAX_FILES:] if path in self._touched]

    def finish(self, hashes: Mapping[str, str]) -> ContextRecord:
        """The record, with the hashes of the files that were touched."""
        files = [
            replace(file, sha256=hashes.get(file.path, "")) if file.path in self._touched else file
            for file in self._files.values()
        ]
        return ContextRecord(
            goal=self._goal,
            requests=self._requests,
            constraints=self._constraints,
            done=self._done,
            files=files[-MAX_FILES:],
            commands=self._commands,
            decisions=self._decisions,
            tools=dict(list(self._tools.items())[-MAX_TOOLS:]),
            calls=self._calls,
        )


def push(items: list[T], item: T, most: int, first: int = 0) -> None:
    """Add an item as the newest; of too many the oldest goes after the `first` ones, which stay. One that is there already
    moves, unless it is among those."""
    if item in items[:first]:
        return
    if item in items:
        items.remove(item)
    items.append(item)
    del items[first : first + max(0, len(items) - most)]


def constraints_in(text: str) -> list[str]:
    """The sentences of a message that set a rule; of a long message those at its beginning and its end."""
    found = [
        one_line(sentence, CONSTRAINT_CHARS)
        for sentence in SENTENCE.split(text[:50_000])
        if CONSTRAINT.search(sentence[: 4 * CONSTRAINT_CHARS])
    ]
    half = MAX_PER_MESSAGE // 2
    return found if len(found) <= MAX_PER_MESSAGE else [*found[:half], *found[-half:]]


def call_text(call: ToolCall) -> str:
    """A call on one short line."""
    given = ", ".join(f"{name}={one_line(str(value), 60)}" for name, value in call.arguments.items())
    return one_line(f"{call.name}({given})", LINE_CHARS)


def one_line(text: str, most: int) -> str:
    """Text on one line, its middle left out where it is too long."""
    return shorten(" ".join(text[: 8 * most].split()), most)


def shorten(text: str, most: int) -> str:
    """The text, without its middle where it is longer than that."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def hash_files(workspace: Path, paths: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of files of the workspace, in hex; what is gone, too large or outside has none, nor have those after so
    many bytes."""
    roots = Roots(workspace)
    found: dict[str, str] = {}
    left = MAX_HASHED_IN_ALL_BYTES
    for path in paths:
        if left <= 0:
            break
        try:
            with roots.open_file(path) as file:
                digest, size = hashlib.sha256(), 0
                while (data := file.read(CHUNK_BYTES)) and size <= MAX_HASHED_BYTES:
                    size += len(data)
                    digest.update(data)
        except (ToolError, OSError, ValueError):
            continue
        left -= size
        if size <= MAX_HASHED_BYTES:
            found[path] = digest.hexdigest()
    return found


# --- as the model reads it -----------------------------------------------------------------------------------------


def record_lines(record: ContextRecord, most_chars: int) -> Iterator[str]:
    """A record as text of about so many characters: every constraint, long ones cut, and the newest of all else."""
    lines = [f"Goal (the first request): {record.goal}"] if record.goal else []
    later = [f"- {text}" for text in record.requests if text != record.goal]
    if newest := fitting(later, int(most_chars * REQUESTS_PART)):
        lines += ["Requests, the newest last:", *newest]
    if constraints := record.constraints:
        each = max(LEAST_CONSTRAINT_CHARS, int(most_chars * CONSTRAINTS_PART) // len(constraints))
        lines += ["Constraints of the user; they hold until the user lifts them:"]
        lines += [f"- {one_line(text, each)}" for text in constraints]
    yield from lines
    room = max(most_chars * LEAST_REST_PART, most_chars - sum(map(len, lines)))
    left = 0.0
    for title, share, items in sections(record):
        left += room * share
        shown = fitting(items, int(left))
        if shown:
            left -= sum(len(line) + 1 for line in shown)
            cut = f" (the newest {len(shown)} of {len(items)})" if len(shown) < len(items) else ""
            yield f"{title}{cut}:"
            yield from shown


def sections(record: ContextRecord) -> list[tuple[str, float, list[str]]]:
    """The lists of a record that may be cut: title, share of the room, lines. A path with line breaks adds no line."""
    files = [
        f"- {one_line(file.path, PATH_CHARS)} {file.change}{f' {file.sha256[:12]}' if file.sha256 else ''}"
        for file in record.files
    ]
    commands = [
        f"- {run.command}{'' if run.exit_code is None else f' (exit code {run.exit_code})'}"
        for run in record.commands
    ]
    tools = [
        f"- {one_line(name, LINE_CHARS)}: {ok} ok{f', {failed} failed' if failed else ''}"
        for name, (ok, failed) in record.tools.items()
    ]
    return [
        ("Decisions", 0.15, [f"- {line}" for line in record.decisions]),
        ("Done, as reported at the end of turns", 0.15, [f"- {line}" for line in record.done]),
        ("Calls by tool", 0.1, tools),
        ("Newest calls", 0.1, [f"- {line}" for line in record.calls]),
        ("Commands", 0.2, commands),
        ("Files touched, with the beginning of their SHA-256", 0.3, files),
    ]


def fitting(lines: list[str], room: int) -> list[str]:
    """The newest lines that fit, in their order."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]
