"""What the server written by hand lists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ECHO = {
    "name": "echo",
    "description": "Say something back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def tools(mode: str) -> list[dict[str, Any]]:
    """What it lists."""
    match mode:
        case "two-names":
            return [ECHO, {**ECHO, "description": "Another."}, {**ECHO, "name": "other"}]
        case "built-in-names":
            return [{**ECHO, "name": name} for name in ("readFile", "run", "list_tools", "mcp__raw__echo")]
        case "bad-schema":
            schemas = [
                {"type": "nothing"},
                {"type": "object", "properties": 5},
                {"type": "string"},
                {"$ref": "http://127.0.0.1:1/x"},
            ]
            return [{**ECHO, "name": f"bad{n}", "inputSchema": one} for n, one in enumerate(schemas)] + [ECHO]
        case "big-schema":
            return [
                {**ECHO, "name": "big", "inputSchema": {"type": "object", "description": "x" * 10_000_000}},
                ECHO,
            ]
        case "odd-names":
            return [{**ECHO, "name": name} for name in ("a.b/c d", "ünïcode", "x" * 200, "")]
        case "named":
            return [{**ECHO, "name": name} for name in sys.argv[2:]]
        case "no-list":
            return 7  # type: ignore[return-value]
        case "lies" | "liar-text":
            return [
                {
                    **ECHO,
                    "outputSchema": {
                        "type": "object",
                        "properties": {"n": {"type": "integer"}},
                        "required": ["n"],
                    },
                }
            ]
        case "counts-up":
            number = Path(sys.argv[2]).read_text() if Path(sys.argv[2]).exists() else ""
            return [{**ECHO, "description": f"Say something back.{number}"}]
        case "refs":
            schema = {
                "type": "object",
                "properties": {
                    "text": {"$ref": "#/$defs/t"},
                    "k": {"oneOf": [{"const": 1}, {"type": "null"}]},
                },
                "$defs": {"t": {"type": "string", "minLength": 2}},
            }
            return [{**ECHO, "inputSchema": schema}]
    return [ECHO]


def listed(mode: str, params: dict[str, Any]) -> dict[str, Any]:
    """A page of the list."""
    if mode == "endless":
        at = int(params.get("cursor") or 0)
        return {"tools": [{**ECHO, "name": f"t{at}_{n}"} for n in range(20)], "nextCursor": str(at + 1)}
    if mode == "same-cursor":
        return {"tools": [ECHO], "nextCursor": "again"}
    return {"tools": tools(mode)}
