"""Where the later generation is served, and which of its routes a path leads to."""

from __future__ import annotations

from typing import Literal
from urllib.parse import unquote_to_bytes

PREFIX = "/next"
UNDER = f"{PREFIX}/v1/".encode()
TOOL = b"tools/"
NextKind = Literal["next_list", "next_tool", "next_invoke", "next_health", "next_version", "next_nothing"]
ROUTES: dict[bytes, NextKind] = {
    b"tools": "next_list",
    b"tool-invocations": "next_invoke",
}


def place_of(path: bytes) -> tuple[NextKind, str] | None:
    """The kind of a route and the tool it is about; None for a path of another generation."""
    if not path.startswith(UNDER):
        return None
    rest = path[len(UNDER) :]
    kind = ROUTES.get(rest)
    if kind is not None:
        return kind, ""
    name = rest.removeprefix(TOOL)
    if name == rest or not name or b"/" in name:
        return "next_nothing", ""
    try:
        return "next_tool", unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        return "next_tool", ""
