"""Characters of a context by kind of content, counted as messages join the conversation."""

from __future__ import annotations

from msgspec import Struct

from jaato.protocol.messages import Media, Message, Refusal, Text, Thinking, ToolCall, ToolResult

MEDIA_CHARS = 4_800
"""What an image or a document counts as: most models take 1,000 to 1,600 tokens for an image."""


class ContextChars(Struct):
    """Characters by kind. `enrichment` is what plugins added to messages, `notes` are the runtime's own messages:
    records, summaries, notices and the answers of subagents."""

    user: int = 0
    enrichment: int = 0
    assistant: int = 0
    thinking: int = 0
    calls: int = 0
    results: int = 0
    notes: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return (
            self.user
            + self.enrichment
            + self.assistant
            + self.thinking
            + self.calls
            + self.results
            + self.notes
        )

    def add(self, message: Message) -> None:
        """Count a message."""
        by_user = message.role == "user" and message.source in ("user", "parent")
        for position, part in enumerate(message.parts):
            match part:
                case ToolResult():
                    self.results += result_chars(part)
                case ToolCall():
                    self.calls += call_chars(part)
                case Thinking():
                    self.thinking += len(part.text)
                case Text() if by_user and position:
                    self.enrichment += len(part.text)
                case _ if message.role == "assistant":
                    self.assistant += part_chars(part)
                case _ if by_user:
                    self.user += part_chars(part)
                case _:
                    self.notes += part_chars(part)


def chars_of(message: Message) -> int:
    """How many characters a message brings into the context."""
    chars = 0
    for part in message.parts:
        match part:
            case ToolResult():
                chars += result_chars(part)
            case ToolCall():
                chars += call_chars(part)
            case _:
                chars += part_chars(part)
    return chars


def part_chars(part: Text | Thinking | Refusal | Media | ToolCall | ToolResult) -> int:
    """The characters of a part that is neither a call nor a result."""
    return MEDIA_CHARS if isinstance(part, Media) else len(part.text or "")


def call_chars(call: ToolCall) -> int:
    """The characters of a call."""
    return len(call.name) + sum(
        [len(value if isinstance(value, str) else str(value)) for value in call.arguments.values()]
    )


def result_chars(result: ToolResult) -> int:
    """The characters of a result, as the model reads it."""
    if result.error is not None:
        return len(result.error.message)
    return sum([part_chars(part) for part in result.content])
