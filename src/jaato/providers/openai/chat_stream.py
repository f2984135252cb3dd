"""Decodes a chat completion, streamed or whole."""

# Annotations are not postponed here: msgspec would compile each one as text.

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConnectionFault
from jaato.protocol.messages import FinishReason, Message, Opaque, Part, Refusal, Text, Thinking, Usage
from jaato.providers.dialect import openai_usage
from jaato.providers.errors import make_malformed_event, stream_error
from jaato.providers.wire_encoding import arguments_of, encode_json, mark_incomplete, tool_call

DIALECT = "openai_chat"


class Function(Struct):
    name: str | None = None
    arguments: Any = None


class CallPiece(Struct):
    extra_content: Raw = Raw()
    index: int | str | None = None
    id: str | int | None = None
    function: Function | None = None


class Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(Struct):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class ChatChunk(Struct):
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None


DECODE = msgspec.json.Decoder(ChatChunk).decode

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "error": "error",
}


class PartialCall:
    """A call that is being written."""

    __slots__ = ("arguments", "extra", "id", "index", "name")

    def __init__(self, index: int | str | None, provider_id: str | None) -> None:
        self.index = index
        self.id = provider_id
        self.name = ""
        self.arguments: list[str] = []
        self.extra = b""


class ChatDecoder:
    """Reads one answer. Usage replaces earlier usage, so a server that repeats it is not counted twice."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._texts: list[str] = []
        self._thought: list[str] = []
        self._field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._refused: list[str] = []
        self._calls: list[PartialCall] = []
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._has_content = False
        self._strange = b""
        self._done = False

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks of one event; `[DONE]` brings the `Reply`."""
        if data == b"[DONE]":
            return [self._make_reply()] if self._has_content and not self._done else []
        if self._done or not data or data.isspace():
            return ()
        try:
            chunk = DECODE(data)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise make_malformed_event(self._provider, data, error) from None
        if chunk.usage is not None:
            self._usage = openai_usage(chunk.usage, "prompt_tokens", "completion_tokens") or self._usage
        if chunk.choices:
            self._has_content = True
            choice = chunk.choices[0]
            if choice.finish_reason:
                self._finish = choice.finish_reason
            delta = choice.delta or choice.message
            found = self._apply_delta(delta) if delta is not None and not choice.index else ()
            if chunk.error:
                raise stream_error(self._provider, chunk.error)
            return found
        if chunk.error:
            raise stream_error(self._provider, chunk.error)
        if event == "error":
            raise stream_error(self._provider, msgspec.json.decode(data))
        if chunk.choices is None and chunk.usage is None:
            self._strange = self._strange or data
        return ()

    def end(self) -> Sequence[Chunk]:
        """The `Reply` when the model had finished; raises `ConnectionFault` when it had not."""
        if self._done:
            return ()
        if self._finish is None:
            if self._strange and not self._has_content:
                raise make_malformed_event(self._provider, self._strange, "no chat completion")
            raise ConnectionFault(
                f"The stream of {self._provider} ended before the model had finished; the answer is cut.",
                provider=self._provider,
            )
        return [self._make_reply()]

    def _apply_delta(self, delta: Delta) -> Sequence[Chunk]:
        content = delta.content
        if delta.reasoning_details:
            add_details(self._details, delta.reasoning_details)
        if content and type(content) is str and not delta.tool_calls:  # by far the most frequent
            self._texts.append(content)
            if not (delta.reasoning_content or delta.reasoning):
                return (TextDelta(content),)
            content_chunk: list[Chunk] = [TextDelta(content)]
        else:
            content_chunk = self._apply_content(content) if content else []
        chunks: list[Chunk] = []
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._thought.append(thought)
            self._field = "reasoning_content" if delta.reasoning_content else "reasoning"
            chunks.append(ThinkingDelta(thought))
        chunks += content_chunk
        if delta.refusal:
            self._refused.append(delta.refusal)
            chunks.append(TextDelta(delta.refusal))
        for piece in delta.tool_calls or ():
            chunks.append(self._apply_call_piece(piece))
        return chunks

    def _apply_content(self, content: str | list[Any]) -> list[Chunk]:
        """Text, or the typed parts in which some servers send text and thoughts."""
        if isinstance(content, str):
            self._texts.append(content)
            return [TextDelta(content)]
        chunks: list[Chunk] = []
        for part in content:
            match part:
                case {"type": "text", "text": str(text)}:
                    self._texts.append(text)
                    chunks.append(TextDelta(text))
                case {"type": "thinking", "thinking": [*thoughts]}:
                    text = "".join([item.get("text", "") for item in thoughts if isinstance(item, dict)])
                    self._thought.append(text)
                    chunks.append(ThinkingDelta(text))
                case _:
                    pass  # kinds of content that were not requested
        return chunks

    def _apply_call_piece(self, piece: CallPiece) -> CallDelta:
        """Add a piece to the call it belongs to; one whose call is unknown belongs to the last."""
        function = piece.function or Function()
        name = function.name or ""
        provider_id = None if piece.id in (None, "") else str(piece.id)
        call = self._find_call(piece.index, provider_id, name)
        if call is None:
            call = PartialCall(piece.index, provider_id)
            self._calls.append(call)
        call.id = call.id or provider_id
        call.extra = bytes(piece.extra_content) or call.extra
        if name and name != call.name:
            call.name += name
        text = arguments_of(function.arguments)
        if text:
            call.arguments.append(text)
        return CallDelta(self._calls.index(call), call.name, text)

    def _find_call(self, index: int | str | None, provider_id: str | None, name: str) -> PartialCall | None:
        """The call a piece continues: by index, else by id, else the last; None when it begins a new one.

        With servers that give every parallel call the same index, or none, a new id that comes with a name
        begins one; with those without ids, a name that comes after arguments.
        """
        if index is not None:
            same = [call for call in self._calls if call.index == index]
        else:
            same = [call for call in self._calls if provider_id is not None and call.id == provider_id]
            if not same and (provider_id is None or not name):
                same = self._calls[-1:]
                if same and name and same[0].arguments:
                    return None
        if not same:
            return None
        call = same[-1]
        if name and provider_id is not None and call.id is not None and provider_id != call.id:
            return None
        return call

    def _make_reply(self) -> Reply:
        self._done = True
        parts: list[Part] = []
        if self._thought or self._details:
            origin = {"reasoning_details": self._details} if self._details else self._field
            opaque = Opaque(DIALECT, Raw(encode_json(origin))) if origin else None
            parts.append(Thinking("".join(self._thought), opaque))
        if self._texts:
            parts.append(Text("".join(self._texts)))
        if self._refused:
            parts.append(Refusal("".join(self._refused)))
        ids: set[str] = set()
        cut = FINISH.get(self._finish or "") in ("length", "refusal", "error")
        for call in self._calls:
            own = call.id if call.id not in ids else None  # an id that comes twice names nothing
            ids.update([own] if own else [])
            extra = Opaque(DIALECT, Raw(call.extra)) if call.extra not in (b"", b"null") else None
            written = tool_call(call.name, "".join(call.arguments), own, extra)
            parts.append(mark_incomplete(written) if cut and not call.arguments else written)
        message = Message("assistant", parts, provider=self._provider, model=self._model)
        return Reply(message, self._get_finish_reason(), self._usage)

    def _get_finish_reason(self) -> FinishReason:
        """The finish reason: servers differ in the word, so the content decides between a stop and calls."""
        reason = FINISH.get(self._finish or "", "unknown")
        if self._refused:
            return "refusal"
        if self._calls and reason in ("stop", "unknown"):
            return "tool_calls"
        if not self._calls and reason == "tool_calls":
            return "stop"
        return reason


def add_details(details: list[dict[str, Any]], more: Sequence[Any]) -> None:
    """Add pieces of reasoning that a gateway streams: readable ones continue the last of their kind and place."""
    for piece in more:
        if not isinstance(piece, dict):
            continue
        last = details[-1] if details else {}
        readable = isinstance(piece.get("text", piece.get("summary")), str)
        if not readable or any(last.get(key) != piece.get(key) for key in ("type", "index")):
            details.append(dict(piece))
            continue
        for key, value in piece.items():
            if key in ("text", "summary") and isinstance(value, str):
                last[key] = (last.get(key) or "") + value
            elif value is not None:
                last[key] = value
