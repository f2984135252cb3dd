"""Clears old tool results from a history: a stub with a handle takes their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from jaato.agent.compaction.chars import chars_of, result_chars
from jaato.protocol.messages import Media, Message, Part, Problem, Text, ToolResult

LEAST_CHARS = 400
"""Shorter results stay: a stub would save next to nothing."""
LEAST_CUT_CHARS = 400
STUB = "[cleared]"
MOST_STUB_CHARS = 2_000
Keep = Callable[[bytes], str]
"""Stores bytes in the session; gives their handle."""


class Cleared(NamedTuple):
    """A history without its old results, and how many were cleared."""

    messages: list[Message]
    results: int


def clear_results(history: Sequence[Message], keep_chars: float, keep: Keep) -> Cleared:
    """Clear the results before the newest ones that have `keep_chars` together. What the model has not seen stays."""
    messages = list(history)
    seen = count_seen(messages)
    kept = 0
    count = 0
    for at in range(seen - 1, -1, -1):
        message = messages[at]
        if message.role != "tool":
            continue
        kept += chars_of(message)
        if kept <= keep_chars:
            continue
        parts: list[Part] = []
        for part in message.parts:
            stub = stub_of(part, keep) if isinstance(part, ToolResult) else None
            parts.append(stub or part)
            count += stub is not None
        if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
            messages[at] = replace(message, parts=parts)
    return Cleared(messages, count)


def count_seen(messages: Sequence[Message]) -> int:
    """How many messages at the beginning the model has answered."""
    return next((at for at in range(len(messages), 0, -1) if messages[at - 1].role == "assistant"), 0)


def is_cleared(result: ToolResult) -> bool:
    """Whether a result is a stub already; a long text only looks like one."""
    text = result.error.message if result.error is not None else text_of(result)
    return text.startswith(STUB) and len(text) < MOST_STUB_CHARS


def stub_of(result: ToolResult, keep: Keep) -> ToolResult | None:
    """A result without its content; None for one that is short, or a stub already."""
    size = result_chars(result)
    if size < LEAST_CHARS or is_cleared(result):
        return None
    text = text_of(result) if result.error is None else result.error.message
    handle = result.handle
    if handle is None and text:
        handle = keep(text.encode("utf-8", "replace"))
    media = [item for item in result.content if isinstance(item, Media)]
    files = "".join(f"; {item.mime_type} {item.name or ''} result:{item.blob}" for item in media)
    where = f'; readFile(path="{handle}") has all of it' if handle is not None else ""
    words = f"{STUB} {result.name}: {len(text):,} characters{where}{files}"
    if result.error is not None:
        return replace(
            result, error=Problem(result.error.code, words), content=[], structured=None, handle=handle
        )
    return replace(result, content=[Text(words)], structured=None, handle=handle)


def text_of(result: ToolResult) -> str:
    """The text of a result."""
    return "\n".join(result.texts)


def shorten_unseen(history: Sequence[Message], surplus_chars: float, keep: Keep) -> Cleared:
    """Cut the results that the model has not seen to head and tail, the longest first, until `surplus_chars` are saved."""
    messages = list(history)
    fresh = [
        (at, number, len(text_of(part)))
        for at in range(count_seen(messages), len(messages))
        for number, part in enumerate(messages[at].parts)
        if isinstance(part, ToolResult) and part.error is None
    ]
    whole = sum(size for _, _, size in fresh)
    most = level([size for _, _, size in fresh], whole - surplus_chars)
    count = 0
    for at, number, size in fresh:
        if size <= most + LEAST_CUT_CHARS:
            continue
        parts = list(messages[at].parts)
        result = parts[number]
        assert isinstance(result, ToolResult)
        parts[number] = cut_result(result, most, keep)
        messages[at] = replace(messages[at], parts=parts)
        count += 1
    return Cleared(messages, count)


def level(sizes: Sequence[int], room: float) -> int:
    """The size to which the longest are cut so that all fit into `room`."""
    left = room
    for position, size in enumerate(sorted(sizes)):
        share = left / (len(sizes) - position)
        if size > share:
            return max(LEAST_CUT_CHARS, int(share))
        left -= size
    return max(sizes, default=0)


def cut_result(result: ToolResult, most: int, keep: Keep) -> ToolResult:
    """A result with head and tail of its text, and a handle to all of it."""
    text = text_of(result)
    handle = result.handle or keep(text.encode("utf-8", "replace"))
    half = max(1, most // 2)
    note = f'\n… {len(text) - 2 * half:,} characters left out; readFile(path="{handle}") has all of it …\n'
    media: list[Text | Media] = [item for item in result.content if isinstance(item, Media)]
    content: list[Text | Media] = [Text(text[:half] + note + text[-half:]), *media]
    return replace(result, content=content, structured=small_or_none(result.structured, most), handle=handle)


def small_or_none(value: Any, most: int) -> Any:
    """A value that is short enough, else None."""
    return value if value is None or len(msgspec.json.encode(value)) <= most else None
