"""Decodes the stream of Gemini's generateContent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import (
    ConnectionFault,
    ContentRefused,
    InvalidRequest,
    ProviderError,
)
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
from jaato.providers.wire_encoding import encode_json

DIALECT = "gemini"
REFUSED = frozenset(
    [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "ESCALATION",
    ]
)
MALFORMED = frozenset(
    ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"]
)
FINISH: dict[str, FinishReason] = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}


class FunctionCallPart(Struct):
    name: str = ""
    args: Raw = Raw(b"{}")
    id: str | None = None


class Inline(Struct, rename="camel"):
    mime_type: str = ""


class Piece(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: FunctionCallPart | None = None
    inline_data: Inline | None = None


class Content(Struct):
    parts: list[Piece] | None = None


class Candidate(Struct, rename="camel"):
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int = 0


class Feedback(Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class Answer(Struct, rename="camel"):
    candidates: list[Candidate] | None = None
    prompt_feedback: Feedback | None = None
    usage_metadata: Any = None
    model_version: str | None = None
    error: Any = None


ANSWERS = msgspec.json.Decoder(Answer | list[Answer])


class ContentDecoder:
    """Gathers the parts of one answer; a signature stays on the part it came with."""

    def __init__(self, provider: str, model: str, names: Mapping[str, str]) -> None:
        self._provider = provider
        self._model = model
        self._names = names
        self._parts: list[Part] = []
        self._running: list[str] = []
        self._thinking = False
        self._calls = 0
        self._reason: str | None = None
        self._finish_message = ""
        self._counts: Any = None

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks that one server-sent event brings (or a whole answer that is a JSON array)."""
        if data in (b"", b"[DONE]"):
            return ()
        try:
            seen = ANSWERS.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise broken_stream(f"an answer that is not what the API promises ({error})") from None
        chunks: list[Chunk] = []
        for answer in seen if isinstance(seen, list) else [seen]:
            self._decode_answer(answer, chunks)
        return chunks

    def end(self) -> Sequence[Chunk]:
        """The final reply; raises `ConnectionFault` when the stream ended before a reason to finish came."""
        reason = self._reason
        if reason is None:
            raise ConnectionFault(
                "The connection was cut before the answer was complete; it can be asked again.",
            )
        if reason in MALFORMED:
            raise broken_stream(
                f"a call it could not write itself ({reason}) {self._finish_message}".rstrip()
            )
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise InvalidRequest("A thought signature of an earlier call is missing.")
        if reason == "PUP_LIMITED_DISABLED":
            raise ProviderError(
                "Google has limited or disabled this account for what it was used for before."
            )
        self._flush()
        parts = self._parts
        finish: FinishReason = FINISH.get(reason, "unknown")
        if reason in REFUSED:
            finish = "refusal"
            parts.append(
                Refusal(self._finish_message or f"The model's answer was stopped by a filter ({reason}).")
            )
        elif self._calls and finish == "stop":
            finish = "tool_calls"
        message = Message("assistant", parts, provider=self._provider, model=self._model)
        return (Reply(message, finish, self._make_usage()),)

    def _decode_answer(self, answer: Answer, chunks: list[Chunk]) -> None:
        if answer.error is not None:
            raise stream_error(self._provider, answer.error)
        if answer.model_version:
            self._model = answer.model_version
        if answer.usage_metadata is not None:
            self._counts = answer.usage_metadata
        feedback = answer.prompt_feedback
        if feedback is not None and feedback.block_reason:
            why = feedback.block_reason_message or feedback.block_reason
            raise ContentRefused(f"The request was blocked by a filter: {why}.", status=200)
        for candidate in answer.candidates or ():
            if candidate.index:
                continue  # one answer was asked for
            for piece in (candidate.content and candidate.content.parts) or ():
                self._decode_part(piece, chunks)
            if candidate.finish_reason and candidate.finish_reason != "FINISH_REASON_UNSPECIFIED":
                self._reason = candidate.finish_reason
                self._finish_message = candidate.finish_message or ""

    def _decode_part(self, piece: Piece, chunks: list[Chunk]) -> None:
        signature = piece.thought_signature
        opaque = Opaque(DIALECT, Raw(encode_json(signature))) if signature else None
        if piece.function_call is not None:
            self._flush()
            call = self._decode_call(piece.function_call, opaque)
            chunks.append(
                CallDelta(self._calls, call.name, call.malformed or encode_json(call.arguments).decode())
            )
            self._parts.append(call)
            self._calls += 1
        elif piece.inline_data is not None:
            self._flush()
            self._parts.append(Text(f"[{piece.inline_data.mime_type} was part of this reply]", opaque))
        elif piece.text is not None:
            if piece.text:
                chunks.append(ThinkingDelta(piece.text) if piece.thought else TextDelta(piece.text))
            if opaque is not None or piece.thought != self._thinking:
                self._flush()
            self._thinking = piece.thought
            if opaque is not None:
                self._parts.append((Thinking if piece.thought else Text)(piece.text, opaque))
            elif piece.text:
                self._running.append(piece.text)

    def _decode_call(self, called: FunctionCallPart, opaque: Opaque | None) -> ToolCall:
        name = self._names.get(called.name, called.name)
        raw = bytes(called.args)
        try:
            arguments = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            arguments = None
        if arguments is None and raw == b"null":
            arguments = {}
        bad = None if isinstance(arguments, dict) else raw.decode(errors="replace")
        return ToolCall(
            new_id("c"),
            name,
            arguments if bad is None else {},
            provider_id=called.id or None,
            malformed=bad,
            opaque=opaque,
        )

    def _flush(self) -> None:
        if self._running:
            self._parts.append((Thinking if self._thinking else Text)("".join(self._running)))
            self._running.clear()

    def _make_usage(self) -> Usage | None:
        counts = self._counts
        if not isinstance(counts, dict):
            return None
        thoughts = token_count(counts, "thoughtsTokenCount")
        return Usage(
            input_tokens=token_count(counts, "promptTokenCount")
            + token_count(counts, "toolUsePromptTokenCount"),
            output_tokens=token_count(counts, "candidatesTokenCount") + thoughts,
            cached_input_tokens=token_count(counts, "cachedContentTokenCount"),
            reasoning_tokens=thoughts,
        )
