"""The vendors' clients and our providers before the same independent server: each reads, and is read, the same."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from tests.independent.aimock import Aimock
from tests.independent.clients import ANSWERS, QUESTION, Reading, ours, theirs
from tests.independent.conversation import conversation
from tests.independent.running import DIALECTS, Dialect

FINISH = {"chat": "tool_calls", "responses": "completed", "anthropic": "tool_use", "gemini": "STOP"}
"""What each API says when a model has asked for calls; the server is told to say Google's."""

CALLS = [
    ("call_a", "look", {"path": "a"}),
    ("call_b", "look", {"path": "ß/🙂", "deep": [1, None, {"x": 0.5}]}),
]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_vendors_client_agrees(dialect: Dialect, server: Aimock) -> None:
    """Text, calls with ids and arguments, usage and ending agree; so do the conversations the server then reads."""
    made = [{"id": label, "name": name, "arguments": json.dumps(given)} for label, name, given in CALLS]
    reply: dict[str, Any] = {"content": "I look at both.", "toolCalls": made}
    reply["usage"] = {"input_tokens": 31, "output_tokens": 17}
    reply |= {"finishReason": "STOP"} if dialect.name == "gemini" else {}
    for user in (False, True):
        response = {"content": "Alpha and beta."} if user else reply
        server.add([{"match": {"hasToolResult": user}, "response": response, "chunkSize": 5}])

    async def main() -> tuple[Reading, Reading]:
        return await theirs(dialect, server.url), await ours(dialect, server.url)

    vendor, mine = anyio.run(main)
    assert mine[:3] == vendor[:3] == ("I look at both.", CALLS, (31, 17))
    assert (vendor.finish, mine.finish) == (FINISH[dialect.name], "tool_calls")
    first, second, third, fourth = server.asked()
    assert conversation(first) == conversation(third) == [{"role": "user", "content": QUESTION}]
    assert first["body"]["tools"] == third["body"]["tools"]
    assert readable(second) == readable(fourth)
    results = [message["content"] for message in conversation(fourth) if message["role"] == "tool"]
    assert [next(answer for answer in ANSWERS if answer in result) for result in results] == list(ANSWERS)
    assert first["path"] == third["path"]


def readable(entry: dict[str, Any]) -> list[Any]:
    """A conversation with the arguments of its calls as data, since their spelling may differ."""
    read: list[Any] = []
    for message in conversation(entry):
        calls = [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])
        ]
        read.append((message["role"], message["content"], message.get("tool_call_id"), calls))
    return read
