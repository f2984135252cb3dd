"""What every history must hold: each call is answered."""

from __future__ import annotations

from jaato.protocol.messages import Message, ToolResult


def assert_paired(messages: list[Message]) -> None:
    """Every call is followed by exactly its results."""
    waiting: list[str] = []
    for message in messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        assert answered == waiting
        waiting = [part.call_id for part in message.function_calls]
    assert waiting == []
