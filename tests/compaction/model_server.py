"""A model's server on a loopback port that counts the tokens of each request and refuses those beyond its limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.providers.server import Answer, Received, answer, events, listen, play, read_request, stream
from tests.providers.server import Server as Played

Messages = list[dict[str, Any]]
Speak = Callable[[Messages], dict[str, Any]]
"""Gives the message of the model: `content`, or `tool_calls`."""


@dataclass
class ModelServer:
    """A running server: its requests to the model, how many it refused, and the answers of other paths by path."""

    url: str
    limit: int
    speak: Speak
    refusal: str
    other: dict[str, Answer] = field(default_factory=dict)
    asked: list[Messages] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refused: int = 0

    def answer(self, request: Received) -> Answer:
        """The answer to a request."""
        self.paths.append(request.path)
        if not request.path.endswith("/chat/completions"):
            return self.other.get(request.path, answer({"error": {"message": "not here"}}, 404))
        tokens = len(request.body) // 4
        if tokens > self.limit:
            self.refused += 1
            message = self.refusal.format(tokens=tokens, limit=self.limit)
            return answer({"error": {"message": message, "type": "invalid_request_error"}}, 400)
        messages = json.loads(request.body)["messages"]
        self.asked.append(messages)
        spoken = self.speak(messages)
        finish = "tool_calls" if spoken.get("tool_calls") else "stop"
        usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
        said = {"choices": [{"index": 0, "delta": {"role": "assistant", **spoken}, "finish_reason": None}]}
        ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        return stream(*events(said, ended, {"choices": [], "usage": usage}, "[DONE]"))


@asynccontextmanager
async def model_server(
    limit: int, speak: Speak, refusal: str = "maximum context length is {limit} tokens, requested {tokens}"
) -> AsyncIterator[ModelServer]:
    """A server whose model reads `limit` tokens."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader, 0)) is not None:
                if not await play(server.answer(request).steps, Played("", 0, []), reader, writer):
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with listen(attend) as port:
        server = ModelServer(f"http://127.0.0.1:{port}", limit, speak, refusal)
        yield server


def tool_call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    """A message that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"call{number}", "type": "function", "function": function}]}
