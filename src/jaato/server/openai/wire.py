"""Writes answers as the chat completions API has them: one JSON object, or a stream of chunks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

import anyio
import msgspec

from jaato.protocol.ids import new_id
from jaato.protocol.messages import Usage
from jaato.server.auth.gate import send_refusal
from jaato.server.http.asgi import Refused, Scope, Send
from jaato.server.openai.answer import FinishReason, Piece
from jaato.server.openai.errors import RequestError, error_body

KEEP_ALIVE_S = 15.0
"""After how long without a piece a comment is sent, so that no proxy gives the connection up."""
UNREAD_S, UNREAD_PARTS = 3.0, 10
"""For how long a client may leave all of a full connection unread; then its turn is stopped, so that what it does not read is
not kept in memory. The connection is reset by `LimitedProtocol`."""
PIECE_CHARS = 16_384
"""The longest text of a chunk: a client is to read one within that time."""
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

UNREAD = (
    f"The answer was not read for {UNREAD_S:g} s, and the turn was stopped; its session has what came before. The next "
    "message continues."
)
NO_RETRY = {"x-should-retry": "false"}
"""Keeps the SDK from repeating a request by itself, and with it what its calls have done."""


class Outcome(msgspec.Struct):
    """How an answer ended."""

    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()


class Source(Protocol):
    """Where an answer comes from: its pieces, then `outcome`. The pieces raise `Refused` for what went wrong."""

    outcome: Outcome

    def pieces(self) -> AsyncGenerator[Piece]: ...


def usage_body(usage: Usage) -> dict[str, Any]:
    """Tokens in the words of the API."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


async def send_json(send: Send, body: Any) -> None:
    """Send a JSON response."""
    data = msgspec.json.encode(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def send_whole(send: Send, model: str, source: Source) -> None:
    """Send an answer as one object. Raises `Refused`."""
    await send_json(send, await gather(model, source))


async def gather(model: str, source: Source) -> dict[str, Any]:
    """An answer as one object, when it is complete. Raises `Refused`."""
    texts: dict[str, list[str]] = {"content": [], "reasoning": []}
    try:
        async with aclosing(source.pieces()) as pieces:
            async for piece in pieces:
                texts[piece.kind].append(piece.text)
    except Refused as refused:
        if any(texts.values()):
            refused.headers |= NO_RETRY
        raise
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts["content"])}
    if any(texts["reasoning"]):
        message["reasoning_content"] = "".join(texts["reasoning"])
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": source.outcome.finish_reason,
        "logprobs": None,
    }
    return head_of(model, "chat.completion") | {
        "choices": [choice],
        "usage": usage_body(source.outcome.usage),
    }


def head_of(model: str, kind: str) -> dict[str, Any]:
    """The fields that an answer and each of its chunks begin with."""
    return {"id": f"chatcmpl-{new_id('m')}", "object": kind, "created": int(time.time()), "model": model}


@contextmanager
def cancel_unread() -> Iterator[anyio.CancelScope]:
    """Cancel what has not been sent within `UNREAD_S`. That is counted in parts, so that a time in which this process itself
    is held up is at most one of them: it says nothing about the client."""
    loop, part_s = asyncio.get_running_loop(), UNREAD_S / UNREAD_PARTS
    scope = anyio.CancelScope()
    timer: asyncio.TimerHandle

    def count(left: int) -> None:
        nonlocal timer
        if left:
            timer = loop.call_later(part_s, count, left - 1)
        else:
            scope.cancel()

    count(UNREAD_PARTS)
    with scope:
        try:
            yield scope
        finally:
            timer.cancel()


class EventStream:
    """A stream of server-sent events without names, which starts with the first piece: until then an error has a status."""

    def __init__(self, scope: Scope, send: Send, model: str, *, include_usage: bool) -> None:
        self._scope = scope
        self._send = send
        self._head = head_of(model, "chat.completion.chunk")
        self._include_usage = include_usage
        self._started = self._is_ended = False
        self._sent_at = anyio.current_time()
        self._lock = anyio.Lock()

    async def run(self, source: Source) -> None:
        """Send an answer. Raises `Refused` before its first piece."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_alive)
            try:
                await self._run(source)
            finally:
                group.cancel_scope.cancel()

    async def _run(self, source: Source) -> None:
        try:
            async with aclosing(source.pieces()) as pieces:
                async for piece in pieces:
                    await self._send_piece(piece)
        except Refused as refused:
            await self.fail(refused)
            return
        await self._send_delta({}, source.outcome.finish_reason)
        if self._include_usage:
            usage = usage_body(source.outcome.usage)
            await self._send_data(self._head | {"choices": [], "usage": usage})
        await self._end()

    async def fail(self, refused: Refused) -> None:
        """End with an error: as the response, or in the stream once that has started. One that has ended stays as it is."""
        if self._is_ended:
            return
        if not self._started:
            await send_refusal(self._scope, self._send, refused, error_body)
            return
        await self._send_data(error_body(self._scope, refused))
        await self._end()

    async def _end(self) -> None:
        self._is_ended = True
        await self._send_line(b"data: [DONE]\n\n")
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_piece(self, piece: Piece) -> None:
        field = "content" if piece.kind == "content" else "reasoning_content"
        if not self._started:
            await self._start()
        for start in range(0, len(piece.text), PIECE_CHARS):
            with cancel_unread() as scope:
                await self._send_delta({field: piece.text[start : start + PIECE_CHARS]})
            if scope.cancelled_caught:
                raise RequestError(408, UNREAD, "answer_unread", **NO_RETRY)

    async def _send_delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        if not self._started:
            await self._start()
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        await self._send_data(self._head | {"choices": [choice]})

    async def _start(self) -> None:
        self._started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self._send_delta({"role": "assistant", "content": ""})

    async def _send_data(self, body: Any) -> None:
        await self._send_line(b"data: " + msgspec.json.encode(body) + b"\n\n")

    async def _send_line(self, data: bytes) -> None:
        async with self._lock:
            self._sent_at = anyio.current_time()
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _keep_alive(self) -> None:
        """Send a comment whenever nothing was sent for long. It starts the response, for clients wait for one no longer."""
        while True:
            await anyio.sleep_until(self._sent_at + KEEP_ALIVE_S)
            if anyio.current_time() - self._sent_at < KEEP_ALIVE_S:
                continue
            if not self._started:
                await self._start()
            await self._send_line(b": keep-alive\n\n")
