"""A small MCP server over stdio of the era with a handshake, from the standard library; a JSON file describes its tools."""

from __future__ import annotations

import json
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "greet": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
    "structured": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    **{name: {"type": "object"} for name in ("fail", "image", "ask", "slow")},
}
IDS = count(1)


def main(path: Path) -> None:
    """Serve until stdin ends."""
    while line := sys.stdin.readline():
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        try:
            answer = {"result": answer_to(message["method"], message.get("params") or {}, path)}
        except LookupError as error:
            answer = {"error": {"code": -32601, "message": str(error)}}
        send({"id": message["id"], **answer})


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer_to(method: str, params: dict[str, Any], path: Path) -> dict[str, Any]:
    """The result of a request. Raises LookupError for a method there is none of."""
    match method:
        case "initialize":
            info = {"name": "small", "version": "1.0"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            described = json.loads(path.read_text())
            return {
                "tools": [
                    {
                        "name": name,
                        "description": described.get(name, f"The tool {name}."),
                        "inputSchema": schema,
                    }
                    for name, schema in TOOLS.items()
                ]
            }
        case "tools/call":
            return called(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    raise LookupError(f"no method {method}")


def called(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool."""
    match name:
        case "greet":
            return text(f"{os.environ.get('GREETING', 'hi')} {arguments['name']}")  # noqa: TID251 this is no jaato
        case "structured":
            return text("doubled") | {"structuredContent": {"double": 2 * arguments["number"]}}
        case "fail":
            return text("it broke") | {"isError": True}
        case "image":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        case "ask":
            schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
            send(
                {
                    "id": f"ask{next(IDS)}",
                    "method": "elicitation/create",
                    "params": {"mode": "form", "message": "Which colour?", "requestedSchema": schema},
                }
            )
            answer = json.loads(sys.stdin.readline())["result"]
            return text(f"{answer['action']} {(answer.get('content') or {}).get('colour')}")
        case "slow":
            for step in (1, 2):
                progress = {"progressToken": meta.get("progressToken"), "progress": step, "total": 2}
                send({"method": "notifications/progress", "params": progress})
            return text("done")
    raise LookupError(f"no tool {name}")


def text(words: str) -> dict[str, Any]:
    """A result of text."""
    return {"content": [{"type": "text", "text": words}]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
