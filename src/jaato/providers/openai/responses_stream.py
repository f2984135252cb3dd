"""Decodes the stream of the OpenAI Responses API, or a whole response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jaato.abc.provider import CallDelta, Chunk, Reply, TextDelta, ThinkingDelta
from jaato.errors import ConnectionFault
from jaato.protocol.messages import FinishReason, Message, Opaque, Part, Refusal, Text, Thinking
from jaato.providers.dialect import openai_usage
from jaato.providers.errors import make_malformed_event, stream_error
from jaato.providers.wire_encoding import arguments_of, mark_incomplete, tool_call

DIALECT = "openai_responses"


class Content(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(Struct):
    type: str = ""
    id: str | None = None
    phase: str | None = None
    content: list[Content] | str | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None


class IncompleteDetails(Struct):
    reason: str | None = None


class Response(Struct):
    status: str | None = None
    output: list[Raw] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class StreamEvent(Struct):
    """Any event; each kind uses some of the fields."""

    type: str = ""
    delta: Any = None
    output_index: int = 0
    summary_index: int = 0
    arguments: Any = None
    item: Raw = Raw()
    response: Response | None = None
    error: Any = None


TEXT_TYPES = ("output_text", "text")
DECODE = msgspec.json.Decoder(StreamEvent).decode
ITEM = msgspec.json.Decoder(Item).decode
WHOLE = msgspec.json.Decoder(Response).decode


class PartialItem:
    """An output item while it is streamed; `done` is the complete item, which replaces the streamed pieces."""

    __slots__ = ("arguments", "call", "done", "item", "refused", "texts", "thought")

    def __init__(self) -> None:
        self.item = Item()
        self.done: Raw | None = None
        self.texts: list[str] = []
        self.refused: list[str] = []
        self.thought: list[str] = []
        self.arguments: list[str] = []
        self.call = 0

    def make_unstreamed_chunks(self, parts: Sequence[Part]) -> list[Chunk]:
        """Chunks for those of its parts of which no piece was streamed."""
        chunks: list[Chunk] = []
        for part in parts:
            match part:
                case Text(text=text) if not self.texts:
                    chunks.append(TextDelta(text))
                case Refusal(text=text) if not self.refused:
                    chunks.append(TextDelta(text))
                case Thinking(text=text) if text and not self.thought:
                    chunks.append(ThinkingDelta(text))
        return chunks


class ResponsesDecoder:
    """Reads one answer, item by item."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._items: dict[int, PartialItem] = {}
        self._calls = 0
        self._started = False
        self._unknown = b""
        self._done = False

    def feed(self, event: str, data: bytes) -> Sequence[Chunk]:
        """The chunks of one event; the end of the response brings the `Reply`."""
        if self._done or not data or data.isspace() or data == b"[DONE]":
            return ()
        try:
            found = DECODE(data)
            return self._apply_event(found.type or event, found, data)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise make_malformed_event(self._provider, data, error) from None

    def end(self) -> Sequence[Chunk]:
        """Nothing more if the response has ended; otherwise raises `ConnectionFault`."""
        if self._done:
            return ()
        if self._unknown and not self._started:
            raise make_malformed_event(self._provider, self._unknown, "no response")
        raise ConnectionFault(
            f"The stream of {self._provider} ended before the model had finished; the answer is cut.",
            provider=self._provider,
        )

    def _apply_event(self, kind: str, found: StreamEvent, data: bytes) -> Sequence[Chunk]:
        match kind:
            case "response.output_text.delta" if isinstance(found.delta, str):
                self._get_item(found).texts.append(found.delta)
                return (TextDelta(found.delta),)
            case "response.function_call_arguments.delta" if isinstance(found.delta, str):
                partial = self._get_item(found)
                partial.arguments.append(found.delta)
                return (CallDelta(partial.call, partial.item.name or "", found.delta),)
            case "response.function_call_arguments.done" if found.arguments is not None:
                self._get_item(found).arguments = [arguments_of(found.arguments)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if isinstance(
                found.delta, str
            ):
                self._get_item(found).thought.append(found.delta)
                return (ThinkingDelta(found.delta),)
            case "response.reasoning_summary_part.added" if found.summary_index > 0:
                self._get_item(found).thought.append("\n\n")
                return (ThinkingDelta("\n\n"),)
            case "response.refusal.delta" if isinstance(found.delta, str):
                self._get_item(found).refused.append(found.delta)
                return (TextDelta(found.delta),)
            case "response.output_item.added" | "response.output_item.done" if found.item:
                return self._apply_item(found, found.item, done=kind.endswith("done"))
            case "response.completed" | "response.incomplete" | "response.failed" if (
                found.response is not None
            ):
                return self._finish(found.response)
            case "error":
                raise stream_error(self._provider, found.error or msgspec.json.decode(data))
            case _ if found.error:
                raise stream_error(self._provider, found.error)
            case "":
                return self._decode_response(data)
            case _ if kind.startswith("response."):
                self._started = True
        return ()

    def _decode_response(self, data: bytes) -> Sequence[Chunk]:
        """A response that came as one JSON document."""
        whole = WHOLE(data)
        if whole.output is None and whole.status is None:
            self._unknown = self._unknown or data
            return ()
        if whole.status in ("completed", "incomplete", "failed"):
            return self._finish(whole)
        raise make_malformed_event(self._provider, data, f"a response that is {whole.status}")

    def _get_item(self, found: StreamEvent) -> PartialItem:
        self._started = True
        partial = self._items.get(found.output_index)
        if partial is None:
            partial = self._items[found.output_index] = PartialItem()
        return partial

    def _apply_item(self, found: StreamEvent, raw: Raw, done: bool) -> Sequence[Chunk]:
        partial = self._get_item(found)
        first = not partial.item.type
        partial.item = ITEM(raw)
        if done:
            partial.done = raw.copy()
        if partial.item.type != "function_call":
            return ()
        if first:
            partial.call = self._calls
            self._calls += 1
            return (CallDelta(partial.call, partial.item.name or "", ""),)
        return ()

    def _finish(self, response: Response) -> Sequence[Chunk]:
        if response.error or response.status == "failed":
            raise stream_error(
                self._provider, response.error or "the response failed and no reason was given"
            )
        if not any(partial.done for partial in self._items.values()) and response.output:
            streamed, self._items = self._items, {}
            for index, raw in enumerate(response.output):
                partial = self._items[index] = streamed.get(index) or PartialItem()
                partial.item, partial.done = ITEM(raw), raw.copy()
        parts: list[Part] = []
        chunks: list[Chunk] = []
        for _, partial in sorted(self._items.items()):
            own = item_parts(partial)
            chunks += partial.make_unstreamed_chunks(own)
            parts += own
        self._done = True
        message = Message("assistant", parts, provider=self._provider, model=self._model)
        return (
            *chunks,
            Reply(
                message,
                finish_reason(response, parts),
                openai_usage(response.usage, "input_tokens", "output_tokens"),
            ),
        )


def item_parts(partial: PartialItem) -> list[Part]:
    """The parts of a message that one output item becomes."""
    item = partial.item
    match item.type:
        case "message" | "":
            opaque = Opaque(DIALECT, Raw(msgspec.json.encode({"phase": item.phase}))) if item.phase else None
            if partial.done is None or item.content is None:
                text = "".join(partial.texts)
                refused = "".join(partial.refused)
                return [*([Text(text, opaque)] if text else []), *([Refusal(refused)] if refused else [])]
            contents = [Content("text", item.content)] if isinstance(item.content, str) else item.content
            text = "".join([content.text or "" for content in contents if content.type in TEXT_TYPES])
            refused = "".join([content.refusal or "" for content in contents if content.type == "refusal"])
            shown: list[Part] = [Text(text, opaque)] if text else []
            return [*shown, Refusal(refused)] if refused else shown
        case "reasoning":
            contents = item.summary or ([] if isinstance(item.content, str) else item.content) or []
            own = [content.text or "" for content in contents]
            text = "\n\n".join(own) or "".join(partial.thought)
            kept = partial.done if partial.done is not None and item.encrypted_content else None
            return [Thinking(text, None if kept is None else Opaque(DIALECT, kept))] if text or kept else []
        case "function_call":
            is_complete = partial.done is not None and item.arguments is not None
            arguments = arguments_of(item.arguments) if is_complete else "".join(partial.arguments)
            call = tool_call(item.name or "", arguments, item.call_id)
            return [call if arguments or is_complete else mark_incomplete(call)]
    return []  # calls of the server's own tools, which were not requested


def finish_reason(response: Response, parts: Sequence[Part]) -> FinishReason:
    """The finish reason of a response."""
    if any(isinstance(part, Refusal) for part in parts):
        return "refusal"
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return (
            "length"
            if reason == "max_output_tokens"
            else "refusal"
            if reason == "content_filter"
            else "unknown"
        )
    return "tool_calls" if any(not isinstance(part, (Text, Thinking)) for part in parts) else "stop"
