"""Results that are read again: how a session's model is told of them, and their URI for a client of MCP."""

from __future__ import annotations

import re

SCHEME = "jaato://results/"
READ = re.compile(r'\breadFile\(path="(result:[0-9a-f]{64})"\)')
"""How a session's model reads what was left out of a long text."""


def uri_of(handle: str) -> str:
    """Where the client reads what is behind a handle."""
    return SCHEME + handle.removeprefix("result:")
