"""Tools and results as MCP says them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import mcp_types as mcp
from msgspec.structs import replace

from jaato.protocol.codec import encode
from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.protocol.specs import Access, ToolSpec
from jaato.server.mcp.sessions import uri_of

MAX_MEDIA_BYTES = 6_000_000
"""A larger image or sound is named, not sent: the client reads it as a resource."""
MAX_STRUCTURED_BYTES = 100_000


Told = Callable[[str], str]
ReadBlob = Callable[[str, int, int], bytes]
HINTS: dict[Access, mcp.ToolAnnotations] = {
    "read": mcp.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False),
    "write": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False),
    "execute": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    "network": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True),
}
"""What a client may expect of each access class; jaato itself decides by its rules, not by hints."""


def tool_of(spec: ToolSpec) -> mcp.Tool:
    """A tool as it is listed, with its whole schema."""
    return mcp.Tool(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object", **spec.parameters},
        annotations=HINTS[spec.access],
    )


def result_of(result: ToolResult, read: ReadBlob, told: Told, *, any_json: bool) -> mcp.CallToolResult:
    """A result as the client reads it, in the words `told` makes of its texts; `any_json` says that structured content
    need not be an object.

    A failed call is a result that says so: the client's model is to see it.
    """
    if result.error is not None:
        return failed(replace(result.error, message=told(result.error.message)))
    content: list[mcp.ContentBlock] = []
    for part in result.content:
        match part:
            case Text():
                content.append(mcp.TextContent(text=told(part.text)))
            case Media():
                content.append(media_of(part, read))
    if result.handle is not None:
        content.append(link(result.handle, f"{result.name} result", "all of this result"))
    return mcp.CallToolResult(content=content, structured_content=structured_of(result, any_json=any_json))


def structured_of(result: ToolResult, *, any_json: bool) -> Any:
    """The data of a result where the protocol has room for it."""
    data = result.structured
    if data is None or not (any_json or isinstance(data, dict)):
        return None
    return data if len(encode(data)) <= MAX_STRUCTURED_BYTES else None


def failed(problem: Problem) -> mcp.CallToolResult:
    """A failure: its message for the model, its code and details for programs."""
    details: dict[str, Any] = {"code": problem.code, "retryable": problem.retryable}
    if problem.details:
        details["details"] = problem.details
    return mcp.CallToolResult(
        content=[mcp.TextContent(text=problem.message)],
        structured_content={"error": details},
        is_error=True,
    )


def media_of(media: Media, read: ReadBlob) -> mcp.ContentBlock:
    """An image or sound itself; anything else, and what is too large, as a resource to be read."""
    kind = media.mime_type.partition("/")[0]
    if kind in ("image", "audio") and media.size_bytes <= MAX_MEDIA_BYTES:
        data = base64.b64encode(read(media.blob, 0, MAX_MEDIA_BYTES)).decode("ascii")
        if kind == "image":
            return mcp.ImageContent(data=data, mime_type=media.mime_type)
        return mcp.AudioContent(data=data, mime_type=media.mime_type)
    return link(media.blob, media.name or "media", "", media.mime_type, media.size_bytes)


def link(
    handle: str, name: str, description: str, mime_type: str | None = None, size: int | None = None
) -> mcp.ResourceLink:
    """A handle as a resource."""
    return mcp.ResourceLink(
        uri=uri_of(handle), name=name, description=description or None, mime_type=mime_type, size=size
    )


def contents_of(uri: str, data: bytes) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    """Bytes as a resource's contents: text when they are; a character that is cut at the end is left to the next piece."""
    text = text_in(data)
    if text is not None:
        return mcp.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    blob = base64.b64encode(data).decode("ascii")
    return mcp.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)


def text_in(data: bytes) -> str | None:
    """The text these bytes are, as far as its last whole character; None when they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = error.start > 0 and error.start >= len(data) - 3 and error.reason == "unexpected end of data"
        return data[: error.start].decode("utf-8") if cut else None
