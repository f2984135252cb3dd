"""Parses a request of the chat completions API: its messages as ours, the settings, the files of the newest message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from jaato.protocol.commands import File
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Text, ToolCall, ToolResult
from jaato.server.openai.errors import RequestError
from jaato.tools.images import PDF, ImageRefused, check_attachment
from jaato.tools.invisible_text import one_line
from jaato.typed_decoding import decode_json

MAX_MESSAGES = 10_000
MAX_STOPS = 4
MAX_STOP_CHARS = 1_000
MAX_MODEL_CHARS = 300
MAX_FILES = 100
"""The most images and documents of a message."""
MAX_NAME_CHARS = 200
UNSHOWN = "[an image or a document that is not part of this history]"


class ContentPart(msgspec.Struct):
    """A part of a message's content."""

    type: str
    text: str | None = None
    image_url: Any = None
    file: Any = None


class WireFunction(msgspec.Struct):
    """What a call calls, its arguments as JSON text."""

    name: str
    arguments: str = ""


class WireCall(msgspec.Struct):
    """A call that a message of the assistant asks for."""

    id: str
    function: WireFunction


class ChatMessage(msgspec.Struct):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[WireCall] | None = None
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The text of the message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text" and part.text)
        return self.content or ""

    @property
    def parts(self) -> Sequence[ContentPart]:
        """The parts that are not text."""
        return (
            [part for part in self.content if part.type != "text"] if isinstance(self.content, list) else []
        )


class StreamOptions(msgspec.Struct):
    """What a stream has beside the answer."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """A request. Fields that are not here are ignored, as other servers of this API do."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    logprobs: bool | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    tool_choice: Any = None
    modalities: list[str] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    metadata: Any = None
    task: Any = None

    @property
    def output_limit(self) -> int | None:
        """The most tokens of a reply."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def stops(self) -> list[str] | None:
        """The texts that end a reply."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or None

    @property
    def effort(self) -> Literal["minimal", "low", "medium", "high"] | None:
        """The reasoning effort, if it is one that providers know."""
        match self.reasoning_effort:
            case "minimal" | "low" | "medium" | "high" as effort:
                return effort
        return None

    @property
    def response_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the answer."""
        named = (self.response_format or {}).get("json_schema")
        schema = named.get("schema") if isinstance(named, dict) else None
        return schema if isinstance(schema, dict) else None

    @property
    def system(self) -> str | None:
        """The system prompt; None without one."""
        texts = [one.text for one in self.messages if one.role in ("system", "developer")]
        return "\n\n".join(text for text in texts if text.strip()) or None

    @property
    def dialogue(self) -> list[ChatMessage]:
        """The messages without the system prompt."""
        return [one for one in self.messages if one.role not in ("system", "developer")]

    @property
    def newest(self) -> ChatMessage:
        """The message that is to be answered."""
        return self.messages[-1]


DECODER = msgspec.json.Decoder(ChatRequest)


def parse_request(body: bytes, *, is_chat: bool = False) -> ChatRequest:
    """The request in a body, checked; that of a chat may offer tools. Raises `RequestError`."""
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as error:
        where = str(error).rpartition("`$")[2].strip("`.") if "`$" in str(error) else None
        raise invalid(f"The request is not valid: {error}.", where or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"The body is no JSON that can be read: {error}.") from None
    check_parameters(request)
    check_tools(request, is_chat=is_chat)
    check_messages(request)
    return request


def invalid(text: str, param: str | None = None, code: str = "invalid_value") -> RequestError:
    """The refusal of a request that is wrong."""
    return RequestError(400, text, code, param)


def check_parameters(request: ChatRequest) -> None:
    """Raise `RequestError` for parameters that the answer could not honour."""
    unsupported = "unsupported_parameter"
    if len(request.model) > MAX_MODEL_CHARS or not request.model.isprintable():
        raise invalid(f"The name of a model is one line of at most {MAX_MODEL_CHARS} characters.", "model")
    if request.n not in (None, 1):
        raise invalid("Only one answer can be given: leave out n, or send 1.", "n", unsupported)
    if request.logprobs:
        raise invalid("An agent's answer has no logprobs: leave the parameter out.", "logprobs", unsupported)
    if request.modalities not in (None, [], ["text"]):
        raise invalid(
            "Answers are text: leave out modalities, or send text alone.", "modalities", unsupported
        )
    for name in ("max_tokens", "max_completion_tokens"):
        limit = getattr(request, name)
        if limit is not None and limit < 1:
            raise invalid(f"{name} is a number above zero.", name)
    if request.temperature is not None and not 0 <= request.temperature <= 2:
        raise invalid("temperature is a number from 0 to 2.", "temperature")
    stops = request.stops or ()
    if len(stops) > MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise invalid(
            f"stop has at most {MAX_STOPS} texts of 1 to {MAX_STOP_CHARS:,} characters, none empty.", "stop"
        )
    check_response_format(request)


def check_response_format(request: ChatRequest) -> None:
    """Raise `RequestError` for a format of the answer that does not exist, or has no schema."""
    kind = (request.response_format or {"type": "text"}).get("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise invalid("The type of response_format is text, json_object or json_schema.", "response_format")
    if kind == "json_schema" and request.response_schema is None:
        raise invalid(
            'response_format has no schema: {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}.',
            "response_format",
        )


def check_tools(request: ChatRequest, *, is_chat: bool) -> None:
    """Raise `RequestError` for tools of the client, which no agent calls. A chat front end offers its tools with every message and
    does without calls; a program that offers some needs them."""
    if not (request.tools or request.functions) or request.tool_choice == "none":
        return
    is_optional = request.tool_choice in (None, "auto")
    if is_chat and is_optional:
        return
    raise invalid(
        "The agent has tools of its own and calls none of the client's: leave the parameter out, or send tool_choice "
        "none. The tools that a chat front end offers are ignored if it sends the chat's id, such as with the header "
        "X-OpenWebUI-Chat-Id.",
        "tools" if request.tools else "functions",
        "unsupported_parameter",
    )


def check_messages(request: ChatRequest) -> None:
    """Raise `RequestError` for messages that cannot be answered."""
    if not request.messages:
        raise invalid("A request has at least one message.", "messages")
    if len(request.messages) > MAX_MESSAGES:
        raise invalid(f"A request has at most {MAX_MESSAGES:,} messages.", "messages")
    last = len(request.messages) - 1
    if request.newest.role != "user":
        raise invalid(
            f"The last message is to be answered, so it is one of the user, not of the role {request.newest.role}. To "
            "have an answer continued, send a message that asks for it.",
            f"messages[{last}].role",
        )
    if not request.newest.text.strip() and not request.newest.parts:
        raise invalid("The last message is empty.", f"messages[{last}].content")


def read_files(message: ChatMessage) -> list[File]:
    """The images and documents of a message. Raises `RequestError` for those that are not in the request itself, and for other
    parts."""
    if len(message.parts) > MAX_FILES:
        raise invalid(f"A message has at most {MAX_FILES} images and documents.", "messages")
    return [read_part(part, number) for number, part in enumerate(message.parts, 1)]


def read_part(part: ContentPart, number: int) -> File:
    """An image, or a PDF document, of a message. Raises `RequestError`."""
    match part.type:
        case "image_url":
            given = part.image_url.get("url") if isinstance(part.image_url, dict) else part.image_url
            name, mime_type = f"image-{number}", "image/*"
        case "file" if isinstance(part.file, dict):
            given, mime_type = part.file.get("file_data"), PDF
            name = one_line(str(part.file.get("filename") or f"document-{number}.pdf"), MAX_NAME_CHARS)
        case _:
            raise invalid(
                f"A part of the type {part.type[:40]!r} cannot be read; send text, image_url, or file with a PDF document.",
                "messages",
            )
    if not isinstance(given, str) or not given.lower().startswith("data:"):
        raise invalid(
            "Images and documents are sent with the request, as data:image/png;base64,…; addresses and ids are not "
            "fetched. The agent can fetch one itself if you write its address as text.",
            "messages",
        )
    head, _, data = given.partition(",")
    if not head.lower().endswith(";base64"):
        raise invalid("The data: URL of an image or a document is base64.", "messages")
    try:
        content = base64.b64decode(data, validate=True)
        found = check_attachment(name, mime_type, content)
    except (binascii.Error, ValueError):
        raise invalid(f"Part {number} is not valid base64.", "messages") from None
    except ImageRefused as error:
        raise invalid(str(error), "messages") from None
    return File(name if found == PDF else f"{name}.{found.rpartition('/')[2]}", found, content)


def history_of(messages: Sequence[ChatMessage], once: str) -> list[Message]:
    """Messages as a session has them. Those of the user begin with `once` in the field of that name. Raises `RequestError`
    for results without their call."""
    found: list[Message] = []
    names: dict[str, str] = {}
    for index, one in enumerate(messages):
        parts: list[Part] = [Text(one.text)] if one.text else []
        match one.role:
            case "user":
                parts += [Text(UNSHOWN) for _ in one.parts]
                found.append(Message("user", parts or [Text("")], once=f"{once}{new_id('m')}"))
            case "assistant":
                calls = [call_of(call) for call in one.tool_calls or ()]
                names = {call.call_id: call.name for call in calls}
                if parts or calls:
                    found.append(Message("assistant", [*parts, *calls]))
            case "tool":
                name = names.pop(one.tool_call_id, None)
                if name is None:
                    raise invalid(
                        f"messages[{index}] answers no call before it: {one.tool_call_id[:80]!r}.", "messages"
                    )
                found.append(
                    Message("tool", [ToolResult(one.tool_call_id, name, ok=True, content=[Text(one.text)])])
                )
            case _:
                raise invalid(
                    "Messages of the role function are not supported; use the role tool.", "messages"
                )
    return found


def call_of(call: WireCall) -> ToolCall:
    """A call as a session has it."""
    try:
        arguments = decode_json(call.function.arguments or "{}", dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return ToolCall(call.id, call.function.name, {}, malformed=call.function.arguments)
    return ToolCall(call.id, call.function.name, arguments)
