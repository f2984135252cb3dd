"""What the dialects say the same way: tool names every API takes, JSON of any value, what a result shows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from jaato.protocol.messages import Media, Text, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.tools import catalog

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names every dialect takes."""


def wire_name(name: str) -> str:
    """The name a tool has on the wire: its exposed name, led by a letter or underscore as Gemini demands."""
    exposed = catalog.wire_name(name)
    if NAME.fullmatch(exposed):
        return exposed
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"_{exposed[:54]}_{digest}"


def names_back(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Wire name to our name, for the tools whose names differ."""
    return {wire_name(tool.name): tool.name for tool in tools if not NAME.fullmatch(tool.name)}


def encode_json(value: Any) -> bytes:
    """JSON bytes of any value we may hold: lone surrogates are replaced, integers of any size are written."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        return json.dumps(scrubbed(value), separators=(",", ":"), ensure_ascii=False).encode()


def scrubbed(value: Any, depth: int = 0) -> Any:
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
            return {scrubbed(str(key)): scrubbed(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [scrubbed(item, depth + 1) for item in value]
    return scrubbed(str(value))


def result_content(result: ToolResult) -> list[Text | Media]:
    """What the model sees of a result; never empty."""
    content = [part for part in result.content if isinstance(part, Media) or part.text.strip()]
    if not result.ok and not any(isinstance(part, Text) for part in content):
        problem = result.error
        said = f"{problem.code}: {problem.message}" if problem else "the call failed"
        return [Text(said), *content]
    if content:
        return content
    if result.structured is not None:
        return [Text(encode_json(result.structured).decode())]
    return [Text("(no output)")]
