"""A server with two tools, which say what they reach: a URL, a file. Written by hand, since the SDK takes a second to load;
with the argument `sdk`, of the official SDK."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any


def fetch(url: str) -> str:
    """The status and the first words of a page."""
    try:
        with urllib.request.urlopen(url, timeout=60) as page:
            return f"{page.status} {page.read(200).decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(200).decode()}"
    except OSError as error:
        return f"no way: {error}"


def write(path: str) -> str:
    """Write a file."""
    try:
        Path(path).write_text("written")
    except OSError as error:
        return f"refused: {error.strerror}"
    return "written"


TOOLS: dict[str, tuple[Callable[..., str], str]] = {"fetch": (fetch, "url"), "write": (write, "path")}


def listed(name: str, given: str) -> dict[str, Any]:
    """A tool as it is listed."""
    schema = {"type": "object", "properties": {given: {"type": "string"}}, "required": [given]}
    return {"name": name, "description": f"{TOOLS[name][0].__doc__}", "inputSchema": schema}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request is answered with."""
    match method:
        case "initialize":
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            return {"result": {**told, "serverInfo": {"name": "reaching", "version": "1"}}}
        case "tools/list":
            return {"result": {"tools": [listed(name, given) for name, (_, given) in TOOLS.items()]}}
        case "tools/call":
            text = TOOLS[params["name"]][0](**params["arguments"])
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Listen until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            said = answer(asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["sdk"]:
        from mcp.server.mcpserver import MCPServer

        server = MCPServer("reaching")
        for tool, _ in TOOLS.values():
            server.tool()(tool)
        server.run("stdio")
    else:
        main()
