"""Decodes the stream of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConnectionFault
from jaato.protocol.ids import new_id
from jaato.protocol.messages import (
    FinishReason,
    Message,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from jaato.providers.dialect import token_count
from jaato.providers.errors import broken_stream, stream_error
from jaato.providers.wire_encoding import encode_json, read_arguments

DIALECT = "anthropic"


class MessageStart(Struct):
    model: str | None = None
    usage: Any = None


class StopDetails(Struct):
    explanation: str | None = None


class Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Opened(Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    id: str | None = None
    name: str = ""
    input: Raw = Raw(b"{}")


class Event(Struct):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: Raw = Raw()
    message: MessageStart | str | None = None
    usage: Any = None
    error: Any = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


EVENTS = msgspec.json.Decoder(Event)
OPENED = msgspec.json.Decoder(Opened)

FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


COUNTS = {
    "input": ("input_tokens",),
    "output": ("output_tokens",),
    "read": ("cache_read_input_tokens",),
    "write": ("cache_creation_input_tokens",),
    "thinking": ("output_tokens_details", "thinking_tokens"),
}


class Block:
    """One content block while it grows."""

    __slots__ = ("call", "open", "raw", "signature", "start", "text")

    def __init__(self, start: Opened, raw: bytes, call: int) -> None:
        self.start = start
        self.raw = raw
        self.call = call
        self.text: list[str] = [seen for seen in (start.text or start.thinking,) if seen]
        self.signature = start.signature
        self.open = True


class MessagesDecoder:
    """Gathers the blocks of one answer; the message is complete when a reason to stop has come."""

    def __init__(self, provider: str, model: str, names: Mapping[str, str]) -> None:
        self._provider = provider
        self._model = model
        self._names = names
        self._blocks: dict[int, Block] = {}
        self._calls = 0
        self._started = False
        self._reason: str | None = None
        self._explanation = ""
        self._counts: dict[str, int] = {}
        self._replied = False

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks that one server-sent event brings."""
        if self._replied or event == "ping" or data in (b"", b"[DONE]"):
            return ()
        try:
            seen = EVENTS.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise broken_stream(f"an event that is not what the API promises ({error})") from None
        match seen.type or event:
            case "content_block_delta":
                return self._apply_delta(seen)
            case "content_block_start":
                return self._open(seen)
            case "content_block_stop":
                self._get_block(seen.index).open = False
            case "message_start":
                self._start(seen)
            case "message_delta":
                self._stop(seen)
            case "message_stop":
                return self.end()
            case "error":
                raise stream_error(self._provider, seen.error or msgspec.json.decode(data))
            case "message":
                return self._decode_message(seen)
            case "completion":
                raise broken_stream("an answer of an interface that is no longer spoken")
        return ()

    def end(self) -> Sequence[Chunk]:
        """The final reply; raises `ConnectionFault` when the stream ended before a reason to stop came."""
        if self._replied:
            return ()
        if self._reason is None:
            raise ConnectionFault(
                "The connection was cut before the answer was complete; it can be asked again.",
            )
        self._replied = True
        parts: list[Part] = [
            part for _, block in sorted(self._blocks.items()) if (part := self._make_part(block))
        ]
        if self._reason == "refusal":
            parts.append(Refusal(self._explanation or "The model declined to answer."))
        message = Message("assistant", parts, provider=self._provider, model=self._model)
        return (Reply(message, self._finish(bool(self._calls)), self._make_usage()),)

    def _decode_message(self, seen: Event) -> Sequence[Chunk]:
        """A message that came as one document, as some gateways answer whatever was asked."""
        chunks: list[Chunk] = []
        for index, raw in enumerate(seen.content or ()):
            chunks += self._open(Event(index=index, content_block=raw))
            self._blocks[index].open = False
        self._stop(
            Event(delta=Delta(stop_reason=seen.stop_reason, stop_details=seen.stop_details), usage=seen.usage)
        )
        if self._reason is None:
            raise broken_stream("a whole message without a reason to stop")
        return [*chunks, *self.end()]

    def _start(self, seen: Event) -> None:
        if self._started:
            raise broken_stream("two beginnings of a message in one stream")
        self._started = True
        if isinstance(seen.message, MessageStart):
            self._model = seen.message.model or self._model
            self._count(seen.message.usage)

    def _open(self, seen: Event) -> Sequence[Chunk]:
        raw = bytes(seen.content_block)
        if seen.index in self._blocks or not raw:
            raise broken_stream(f"content block {seen.index} twice or without content")
        try:
            start = OPENED.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise broken_stream(f"a content block that is not what the API promises ({error})") from None
        block = self._blocks[seen.index] = Block(start, raw, self._calls)
        match start.type:
            case "tool_use":
                self._calls += 1
                return (CallDelta(block.call, self._names.get(start.name, start.name), ""),)
            case "text" if start.text:
                return (TextDelta(start.text),)
            case "thinking" if start.thinking:
                return (ThinkingDelta(start.thinking),)
        return ()

    def _apply_delta(self, seen: Event) -> Sequence[Chunk]:
        block = self._get_block(seen.index)
        delta = seen.delta or Delta()
        match delta.type:
            case "text_delta":
                block.text.append(delta.text)
                return (TextDelta(delta.text),) if delta.text else ()
            case "input_json_delta":
                block.text.append(delta.partial_json)
                name = self._names.get(block.start.name, block.start.name)
                return (CallDelta(block.call, name, delta.partial_json),) if delta.partial_json else ()
            case "thinking_delta":
                block.text.append(delta.thinking)
                return (ThinkingDelta(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                block.signature = delta.signature  # it always comes whole
        return ()

    def _get_block(self, index: int) -> Block:
        block = self._blocks.get(index)
        if block is None or not block.open:
            raise broken_stream(f"something for content block {index}, which is not open")
        return block

    def _stop(self, seen: Event) -> None:
        if seen.delta is not None and seen.delta.stop_reason:
            self._reason = seen.delta.stop_reason
            if seen.delta.stop_details is not None:
                self._explanation = seen.delta.stop_details.explanation or ""
        self._count(seen.usage)

    def _make_part(self, block: Block) -> Part | None:
        start, text = block.start, "".join(block.text)
        match start.type:
            case "text":
                return Text(text) if text else None
            case "thinking" if block.signature:
                fields = {"type": "thinking", "thinking": text, "signature": block.signature}
                return Thinking(text, Opaque(DIALECT, Raw(encode_json(fields))))
            case "thinking":
                return Thinking(text) if text else None  # cut before it was signed: it cannot go back
            case "redacted_thinking":
                return Thinking("", Opaque(DIALECT, Raw(block.raw)))
            case "tool_use":
                arguments, bad = read_arguments(text or bytes(start.input).decode())
                if block.open and bad is None and not text:
                    bad = ""  # cut before its arguments came
                name = self._names.get(start.name, start.name)
                return ToolCall(new_id("c"), name, arguments, provider_id=start.id or None, malformed=bad)
        return None

    def _finish(self, calls: bool) -> FinishReason:
        finish = FINISH.get(self._reason or "", "unknown")
        if calls and finish == "stop":
            return "tool_calls"
        return finish if calls or finish != "tool_calls" else "unknown"

    def _count(self, counts: Any) -> None:
        """Update the running totals of tokens; a total that falls is ignored, since servers send zeros in between."""
        if not isinstance(counts, dict):
            return
        for name, path in COUNTS.items():
            self._counts[name] = max(token_count(counts, *path), self._counts.get(name, 0))

    def _make_usage(self) -> Usage | None:
        counts = self._counts
        if not counts:
            return None
        return Usage(
            input_tokens=counts["input"] + counts["read"] + counts["write"],
            output_tokens=counts["output"],
            cached_input_tokens=counts["read"],
            cache_write_tokens=counts["write"],
            reasoning_tokens=counts["thinking"],
        )
