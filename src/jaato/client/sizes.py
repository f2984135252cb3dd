"""How much of a state its entries are."""

from __future__ import annotations

from jaato.protocol.events import GcCompleted, MessageModel, MessageUser, ToolCallEnd
from jaato.protocol.events.state import Entry
from jaato.protocol.messages import Message, Refusal, Text, Thinking, ToolCall, ToolResult


def size_of(entry: Entry) -> int:
    """About how many characters an entry has."""
    match entry:
        case MessageUser() | MessageModel():
            return message_chars(entry.message)
        case ToolCallEnd():
            return result_chars(entry.result)
        case GcCompleted():
            return sum(message_chars(placed.message) for placed in entry.added)
    return 100


def message_chars(message: Message) -> int:
    """About how many characters a message has."""
    chars = 100
    for part in message.parts:
        match part:
            case Text() | Thinking() | Refusal():
                chars += len(part.text)
            case ToolCall():
                chars += 50 + sum(len(str(value)) for value in part.arguments.values())
            case ToolResult():
                chars += result_chars(part)
    return chars


def result_chars(result: ToolResult) -> int:
    """About how many characters a result has."""
    return 100 + sum(len(item.text) for item in result.content if isinstance(item, Text))
