"""What the Anthropic and Gemini dialects cost by themselves: a long request, and one piece of an answer."""

from __future__ import annotations

import time
from typing import Any

from bench.providers import MESSAGES, ROUNDS, TOOLS, conversation, tools
from bench.row import Row

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message, Text
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.anthropic.stream import MessagesDecoder
from jaato.providers.dialect import Decoder, Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.google_genai.stream import ContentDecoder

CHUNKS = 50_000
AGAINST = "in process, no wire"
CLAUDE = "claude-opus-5-5"
GEMINI = "gemini-3.1-pro"
CLAUDE_PIECE = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}'
GEMINI_PIECE = (
    b'{"candidates":[{"content":{"parts":[{"text":" word"}],"role":"model"},"index":0}],"usageMetadata":'
    b'{"promptTokenCount":900,"totalTokenCount":910},"modelVersion":"gemini-3.1-pro","responseId":"r"}'
)


def request_ms(dialect: Dialect, model: str) -> tuple[float, float]:
    """CPU milliseconds to encode a long conversation: at first, and with two messages new (the best)."""
    encoded: dict[Any, Any] = {}
    messages = conversation(MESSAGES)
    specs = tools(TOOLS)

    def spent() -> float:
        started = time.process_time()
        dialect.encode(ModelRequest(model, messages, "You work with tools.", specs, encoded=encoded))
        return (time.process_time() - started) * 1e3

    first, best = spent(), float("inf")
    for number in range(ROUNDS):
        messages = [
            *messages,
            Message("user", [Text(f"and then? {number}")]),
            Message("assistant", [Text("So.")]),
        ]
        best = min(best, spent())
    return first, best


def piece_us(decoder: Decoder, piece: bytes) -> float:
    """CPU microseconds for one streamed piece of text, over a very long answer."""
    started = time.process_time()
    for _ in range(CHUNKS):
        decoder.feed("", piece)
    return (time.process_time() - started) / CHUNKS * 1e6


def rows() -> list[Row]:
    """Both dialects, encoding and decoding."""
    claude = MessagesDecoder("anthropic", CLAUDE, {})
    claude.feed("", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}')
    found: list[Row] = []
    for name, dialect, model, decoder, piece in (
        ("Anthropic", AnthropicDialect(deferred=True), CLAUDE, claude, CLAUDE_PIECE),
        ("Gemini", GeminiDialect(), GEMINI, ContentDecoder("google_genai", GEMINI, {}), GEMINI_PIECE),
    ):
        first, again = request_ms(dialect, model)
        found += [
            Row(f"{name}: request of {MESSAGES} messages, encoded", again, "ms", 2.0, AGAINST),
            Row(f"{name}: the same, nothing encoded before", first, "ms", None, AGAINST),
            Row(
                f"{name}: a streamed chunk of {CHUNKS:,}, read", piece_us(decoder, piece), "µs", 20.0, AGAINST
            ),
        ]
    return found
