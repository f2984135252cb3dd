"""What may remain of a conversation: the order is kept, calls keep their results, the last words stay."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jaato.errors import PluginError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, ToolResult

Key = tuple[int, int]
"""Where a message stands: after which message of the conversation, and as the how manieth new one there."""


def settled(history: Sequence[Message], proposed: object) -> list[Message]:
    """The history a strategy proposes, made whole. Raises `PluginError` for one that is none.

    Messages that are as they were stay the very same objects. What must stay is put back, and a call whose results
    are gone goes too, as do results without their call.
    """
    placed = positions(history, proposed)
    for at in indispensable(history):
        placed[at, 0] = history[at]
    return paired([message for _, message in sorted(placed.items(), key=lambda item: item[0])])


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
            placed[last, new] = msgspec.structs.replace(checked(message), id=new_id("m"))
            continue
        if at <= last:
            raise PluginError("the history has its messages in another order, or one of them twice")
        same = message == history[at]
        placed[at, 0] = history[at] if same else checked(message)
        last, new = at, 0
    return placed


def checked(message: Message) -> Message:
    """A message somebody else made, if the log can carry it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(message), type=Message)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"the history has a message that cannot be stored: {error}") from None


def indispensable(history: Sequence[Message]) -> list[int]:
    """The places of what must stay: the newest message of the user and of a parent, and what the model has not seen yet
    with its call."""
    spoken = [at for at, message in enumerate(history) if message.role == "assistant"]
    first = spoken[-1] + 1 if spoken else 0
    if first < len(history) and history[first].role == "tool":
        first -= 1
    unseen = range(first, len(history))
    newest = {
        message.source: at
        for at, message in enumerate(history)
        if message.role == "user" and message.source in ("user", "parent")
    }
    return sorted({*unseen, *newest.values()})


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages without calls that have no results and results that have no call."""
    kept: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        calls = [call.call_id for call in message.function_calls]
        if calls:
            answer = messages[at + 1] if at + 1 < len(messages) else None
            if answer is not None and answer.role == "tool" and answered(answer) == calls:
                kept += [message, answer]
                at += 1
        elif message.role != "tool":
            kept.append(message)
        at += 1
    return kept


def answered(message: Message) -> list[str]:
    """The calls whose results a message brings, in their order."""
    return [part.call_id for part in message.parts if isinstance(part, ToolResult)]
