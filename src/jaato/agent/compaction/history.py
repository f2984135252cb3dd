"""Compaction of a message history: which part is recent, and keeping calls and their results together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from jaato.abc.compactor import GCConfig
from jaato.agent.compaction.chars import chars_of
from jaato.errors import PluginError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, ToolResult
from jaato.typed_decoding import decode_json

TOO_MUCH, AIM, MOST = 0.55, 0.4, 0.6
"""Recent turns that would fill more than the first part of the threshold are cut to the second part of it, and removed where
the last piece alone is larger than the third; the rest is for the record, the summary, and what is to come."""


LEAST_ROOM = 0.05
"""The part of the limit that a conversation has at least, however large the system prompt and the tools are."""


class Pieces(NamedTuple):
    """A history parted: where each piece begins, and where the recent ones do."""

    begins: list[int]
    recent: int


def is_turn_start(message: Message) -> bool:
    """Whether a turn begins with this message: it comes from a user or an agent, not from the runtime."""
    return message.role == "user" and message.source in ("user", "parent")


def is_notice(message: Message) -> bool:
    """Whether a message comes from the runtime itself: a summary, a note, that a task has ended."""
    return message.role == "user" and message.source == "system"


def split_history(history: Sequence[Message], usage: dict[str, Any], config: GCConfig) -> Pieces:
    """The pieces of a history: a message, or one that calls with its results.

    The last `preserve_recent_turns` turns are recent. Where they alone would keep the context full, as one long turn
    of many calls does, only the last pieces are that fit beside what must stay; at least one of them, unless it would leave
    no room.
    """
    begins = [at for at, message in enumerate(history) if message.role != "tool" or at == 0]
    turns = [at for at in begins if is_turn_start(history[at])]
    kept = config.preserve_recent_turns
    recent = turns[-kept:][0] if kept and turns else (0 if kept else len(history))
    sizes = [chars_of(message) for message in history]
    room = room_chars(sum(sizes), usage, config)
    if room is None:
        return Pieces(begins, recent)
    required = set(find_required_positions(history))
    must = sum(sizes[at] for at in required)
    free = [0 if at in required else size for at, size in enumerate(sizes)]
    if must + sum(free[recent:]) > TOO_MUCH * room:
        recent = first_fitting(begins, free, AIM * room - must)
        if must + sum(free[recent:]) > MOST * room:
            recent = len(history)
    return Pieces(begins, recent)


def room_chars(chars: int, usage: dict[str, Any], config: GCConfig) -> float | None:
    """How many characters of a history that now has so many fill the context up to the threshold; None if unknown."""
    if usage.get("room_chars") is not None:
        return float(usage["room_chars"])
    limit: int = usage.get("context_limit") or 0
    total: int = usage.get("total_tokens") or 0
    fixed: int = usage.get("fixed_tokens") or 0
    if not limit or total <= fixed:
        return None
    room = max(limit * LEAST_ROOM, limit * config.threshold_percent / 100 - fixed)
    return chars * room / (total - fixed)


def first_fitting(begins: Sequence[int], sizes: Sequence[int], room: float) -> int:
    """Where the last pieces begin that fit in so many characters; the last of them is there anyway."""
    ends = [*begins[1:], len(sizes)]
    taken = 0.0
    first = len(sizes)
    for begin, end in zip(reversed(begins), reversed(ends), strict=True):
        taken += sum(sizes[begin:end])
        if taken > room and end < len(sizes):
            break
        first = begin
    return first


def newer_half(history: Sequence[Message], begins: Sequence[int], end: int) -> int:
    """Where the newer half of what stands before `end` begins, by its size; at least one piece is in it."""
    older = [begin for begin in begins if begin < end]
    if not older:
        return end
    sizes = list(itertools.accumulate(chars_of(message) for message in history[:end]))
    half = sizes[-1] / 2
    return next((begin for begin in older if begin and sizes[begin - 1] >= half), older[-1])


Key = tuple[int, int]
"""Where a message stands: after which message of the conversation, and as the how manieth new one there."""


def settle_history(history: Sequence[Message], proposed: object) -> list[Message]:
    """Validate the history a strategy proposes. Raises `PluginError` for an invalid one.

    Messages that are as they were stay the very same objects. What must stay is put back, and a call whose results
    are gone goes too, as do results without their call.
    """
    placed = positions(history, proposed)
    for at in find_required_positions(history):
        placed[at, 0] = history[at]
    return drop_unpaired([message for _, message in sorted(placed.items(), key=lambda item: item[0])])


def positions(history: Sequence[Message], proposed: object) -> dict[Key, Message]:
    """The proposed messages by their place in the conversation."""
    if not isinstance(proposed, (list, tuple)):
        raise PluginError(f"collect() gives a history and a GCResult, not a {type(proposed).__name__}")
    places = {message.id: at for at, message in enumerate(history)}
    placed: dict[Key, Message] = {}
    last, new = -1, 0
    for message in proposed:
        if not isinstance(message, Message):
            raise PluginError(f"the history has a {type(message).__name__} among its messages")
        at = places.get(message.id)
        if at is None:
            new += 1
            placed[last, new] = msgspec.structs.replace(check_message(message), id=new_id("m"))
            continue
        if at <= last:
            raise PluginError("the history has its messages in another order, or one of them twice")
        same = message == history[at]
        placed[at, 0] = history[at] if same else check_message(message)
        last, new = at, 0
    return placed


def check_message(message: Message) -> Message:
    """A message that a plugin made, if the log can store it."""
    try:
        return decode_json(msgspec.json.encode(message), Message)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"the history has a message that cannot be stored: {error}") from None


def find_required_positions(history: Sequence[Message]) -> list[int]:
    """The places of what must stay: the newest message of the user and of a parent, and what the model has not seen yet
    with its call."""
    assistant_positions = [at for at, message in enumerate(history) if message.role == "assistant"]
    first = assistant_positions[-1] + 1 if assistant_positions else 0
    if first < len(history) and history[first].role == "tool":
        first -= 1
    unseen = range(first, len(history))
    newest = {
        message.source: at
        for at, message in enumerate(history)
        if message.role == "user" and message.source in ("user", "parent")
    }
    return sorted({*unseen, *newest.values()})


def drop_unpaired(messages: Sequence[Message]) -> list[Message]:
    """The messages without calls that have no results and results that have no call."""
    kept: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        calls = [call.call_id for call in message.function_calls]
        if calls:
            answer = messages[at + 1] if at + 1 < len(messages) else None
            if answer is not None and answer.role == "tool" and get_answered_ids(answer) == calls:
                kept += [message, answer]
                at += 1
        elif message.role != "tool":
            kept.append(message)
        at += 1
    return kept


def get_answered_ids(message: Message) -> list[str]:
    """The calls whose results a message brings, in their order."""
    return [part.call_id for part in message.parts if isinstance(part, ToolResult)]
