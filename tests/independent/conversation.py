"""A request as the independent server read it."""

from __future__ import annotations

from typing import Any


def conversation(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request as the server read them, without the system prompt.

    What the model said between two others is one message; the server reads each item of responses as its own.
    """
    read: list[dict[str, Any]] = []
    for message in entry["body"]["messages"]:
        if message["role"] == "assistant" and read and read[-1]["role"] == "assistant":
            read[-1]["content"] = (read[-1]["content"] or "") + (message["content"] or "") or None
            read[-1]["tool_calls"] = [*read[-1].get("tool_calls", []), *message.get("tool_calls", [])]
        elif message["role"] != "system":
            read.append(dict(message))
    return read
