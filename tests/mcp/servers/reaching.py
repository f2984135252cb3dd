"""A server of the official SDK with two tools, which say what they reach: a URL, a file."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("reaching")


@server.tool()
def fetch(url: str) -> str:
    """The status and the first words of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as page:
            return f"{page.status} {page.read(200).decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(200).decode()}"
    except OSError as error:
        return f"no way: {error}"


@server.tool()
def write(path: str) -> str:
    """Write a file."""
    try:
        Path(path).write_text("written")
    except OSError as error:
        return f"refused: {error.strerror}"
    return "written"


if __name__ == "__main__":
    server.run("stdio")
