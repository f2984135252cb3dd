"""A history in pieces that stay together, and which of them are recent enough to stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaato.abc.compactor import GCConfig
from jaato.agent.state import chars_of
from jaato.protocol.messages import Message

TOO_MUCH, AIM = 0.75, 0.5
"""Recent turns that would fill more than this part of the threshold are cut to that part of it."""


class Pieces(NamedTuple):
    """A history parted: where each piece begins, and where the recent ones do."""

    begins: list[int]
    recent: int


def opens_turn(message: Message) -> bool:
    """Whether a turn begins with this message: somebody, not the runtime, speaks to the agent."""
    return message.role == "user" and message.source in ("user", "parent")


def parted_history(
    history: Sequence[Message], usage: dict[str, Any], config: GCConfig, *, least: int = 1
) -> Pieces:
    """The pieces of a history: a message, or one that calls with its results.

    The last `preserve_recent_turns` turns are recent. Where they alone would keep the context full, as one long turn
    of many calls does, only the last pieces are that fit; at least `least` of them.
    """
    begins = [at for at, message in enumerate(history) if message.role != "tool" or at == 0]
    turns = [at for at in begins if opens_turn(history[at])]
    kept = config.preserve_recent_turns
    recent = turns[-kept:][0] if kept and turns else (0 if kept else len(history))
    sizes = [chars_of(message) for message in history]
    room = room_chars(sum(sizes), usage, config)
    if room is not None and sum(sizes[recent:]) > TOO_MUCH * room:
        recent = fitting(begins, sizes, AIM * room, least)
    return Pieces(begins, recent)


def room_chars(chars: int, usage: dict[str, Any], config: GCConfig) -> float | None:
    """How many characters of a history that now has so many fill the context up to the threshold; None if unknown."""
    limit, total = usage.get("context_limit"), usage.get("total_tokens")
    if not limit or not total:
        return None
    room: float = chars * limit * config.threshold_percent / 100 / total
    return room


def fitting(begins: Sequence[int], sizes: Sequence[int], room: float, least: int) -> int:
    """Where the last pieces begin that fit in so many characters; `least` of them are there anyway."""
    ends = [*begins[1:], len(sizes)]
    taken = 0.0
    first = len(sizes)
    for count, (begin, end) in enumerate(zip(reversed(begins), reversed(ends), strict=True), 1):
        taken += sum(sizes[begin:end])
        if taken > room and count > least:
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
