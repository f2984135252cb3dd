"""Encodes what is the same in all dialects: tool names and call ids every API takes, JSON of any value, media, tool results."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from jaato.errors import StoreError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Media, Opaque, Text, ToolCall, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.tools import catalog

NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names every dialect takes."""


def wire_name(name: str) -> str:
    """The name a tool has on the wire: its exposed name, led by a letter or underscore as Gemini demands."""
    exposed = catalog.wire_name(name)
    if NAME.fullmatch(exposed):
        return exposed
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"_{exposed[:54]}_{digest}"


def original_names(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Wire name to our name, for the tools whose names differ."""
    return {wire_name(tool.name): tool.name for tool in tools if not NAME.fullmatch(tool.name)}


def encode_json(value: Any) -> bytes:
    """JSON bytes of any value we may hold: lone surrogates are replaced, integers of any size are written."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        return json.dumps(replace_unencodable(value), separators=(",", ":"), ensure_ascii=False).encode()


def replace_unencodable(value: Any, depth: int = 0) -> Any:
    """The value as plain JSON: what cannot be written is replaced by something near that can."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case None | bool() | int():
            return value
        case float():
            return value if value - value == 0 else None
        case _ if depth > 100:
            return "…"
        case dict():
            return {
                replace_unencodable(str(key)): replace_unencodable(item, depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [replace_unencodable(item, depth + 1) for item in value]
    return replace_unencodable(str(value))


def result_content(result: ToolResult) -> list[Text | Media]:
    """What the model sees of a result; never empty."""
    content = [part for part in result.content if isinstance(part, Media) or part.text.strip()]
    if not result.ok and not any(isinstance(part, Text) for part in content):
        problem = result.error
        text = f"{problem.code}: {problem.message}" if problem else "the call failed"
        return [Text(text), *content]
    if content:
        return content
    if result.structured is not None:
        return [Text(encode_json(result.structured).decode())]
    return [Text("(no output)")]


T = TypeVar("T")
ANY_ID = lazy_pattern(r"[!-~]{1,512}")
"""Call ids a server of an OpenAI dialect takes back when they are its own; some models count on their form."""
NOTHING_SENT = "(empty message)"
DECODE = msgspec.json.Decoder().decode


def encode_once(
    encoded: dict[Any, Any], variant: Hashable, items: Sequence[T], encode: Callable[[T], bytes]
) -> list[bytes]:
    """The bytes of each item, made once: `encoded` keeps them by identity, per variant, and the item alive.

    What no longer belongs to the conversation is forgotten in time.
    """
    kept: dict[int, tuple[T, bytes]] = encoded.setdefault(variant, {})
    get = kept.get
    found: list[bytes] = []
    for item in items:
        entry = get(id(item))
        if entry is None:
            entry = kept[id(item)] = (item, encode(item))
        found.append(entry[1])
    if len(kept) > 2 * len(items) + 256:
        present = {id(item) for item in items}
        for stale in [key for key in kept if key not in present]:
            del kept[stale]
    return found


def join(pieces: Iterable[bytes]) -> bytes:
    """Encoded items as the inside of a JSON array; empty ones are left out."""
    return b",".join([piece for piece in pieces if piece])


def read_media(media: Media, read_blob: Callable[[str], bytes]) -> bytes | None:
    """The bytes of a media part, or None when they are gone: a lost picture must not end a conversation."""
    try:
        return read_blob(media.blob)
    except (KeyError, OSError, StoreError):
        return None


def data_url(mime_type: str, data: bytes) -> str:
    """Bytes as a `data:` URL."""
    return f"data:{mime_type};base64,{b64encode(data).decode('ascii')}"


def media_text(media: Media, data: bytes | None) -> str:
    """What stands in for media the dialect cannot carry: its text if it is text, else a note naming it."""
    name = media.name or media.blob[:12]
    if data is None:
        return f"[{name} ({media.mime_type}): its content is no longer available]"
    if media.mime_type.startswith("text/") or media.mime_type in ("application/json", "application/xml"):
        return f"[{name}]\n{data.decode('utf-8', 'replace')}"
    return f"[{name} ({media.mime_type}, {len(data)} bytes): this model interface cannot show it]"


def media_note(media: Media) -> str:
    """What stands in for media that a model gave: no dialect takes it back."""
    return f"[{media.name or media.mime_type} was part of this reply]"


def result_text(result: ToolResult) -> str:
    """The text of a tool result; never empty, since some servers refuse empty messages."""
    text = "".join(result.texts)
    if text:
        return text
    if result.error is not None:
        return f"error: {result.error.message}"
    if result.structured is not None:
        return encode_json(result.structured).decode()
    if result.content:
        return "(see the attached content)"
    return "(no output)" if result.ok else "error: the tool failed and returned no message"


def read_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call, and the text itself where that is no object; no text or `null` means none."""
    if not text or text.isspace():
        return {}, None
    try:
        value = DECODE(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}, text
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, text)


def tool_call(name: str, arguments: str, provider_id: str | None, opaque: Opaque | None = None) -> ToolCall:
    """A call as the model wrote it, under an id of ours."""
    values, malformed = read_arguments(arguments)
    return ToolCall(new_id("c"), name, values, provider_id or None, malformed, opaque)


def arguments_of(value: Any) -> str:
    """Arguments as the text they should have been: some servers send the value itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode_json(value).decode()


def mark_incomplete(call: ToolCall) -> ToolCall:
    """A call that broke off before its arguments came: it asks for nothing, not for a call without arguments."""
    return call if call.arguments or call.malformed else msgspec.structs.replace(call, malformed="")


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as JSON text; malformed ones are wrapped, for many servers parse them and choke."""
    values = call.arguments if call.malformed is None else {"malformed": call.malformed}
    return encode_json(values).decode()


def is_strict(schema: Any) -> bool:
    """Whether a schema is of the closed kind strict decoding demands: every property required, no others."""
    match schema:
        case {"type": "object"}:
            properties = schema.get("properties", {})
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(
                properties
            ):
                return False
            return all(is_strict(item) for key, item in schema.items() if key != "properties") and all(
                is_strict(item) for item in properties.values()
            )
        case dict():
            return all(is_strict(item) for item in schema.values())
        case list():
            return all(is_strict(item) for item in schema)
    return True
