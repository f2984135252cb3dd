"""Values that are configured for MCP servers and registries: secret, whatever they are called, before any of them is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jaato.settings import Settings, home_of
from jaato.tools.secret_words import configured_secrets

MCP_FILE, REGISTRIES_FILE = ".mcp.json", "registries.json"
ENTRIES = ("mcpServers", "servers", "registries")
TABLES = ("env", "environment", "envs", "headers", "http_headers")
MAX_VALUES = 2_000
"""Of one file; whoever writes a workspace's could otherwise make every text slow to look through."""


def configured_in(settings: Settings, workspace: Path | None) -> dict[str, str]:
    """What is secret of the variables and headers in the user's files, and in those of a workspace, trusted or not."""
    home = home_of(settings.environ)
    files: list[tuple[Path, Path | None]] = [
        (home / MCP_FILE, None),
        (settings.config_dir / REGISTRIES_FILE, None),
    ]
    if workspace is not None:
        files += [(workspace / MCP_FILE, workspace), (workspace / ".jaato" / REGISTRIES_FILE, workspace)]
    found: dict[str, str] = {}
    for path, within in files:
        if not os.path.exists(path):
            continue
        from jaato.tools.remote.fields import VARIABLE, value_of  # most have no such file

        for values in tables_in(path, within):
            filled = {
                key: VARIABLE.sub(lambda one: value_of(one, settings.environ) or "", value)
                for key, value in values.items()
            }
            for name, value in configured_secrets(filled).items():
                found[name if found.get(name, value) == value else f"{name}.{len(found)}"] = value
    return found


def tables_in(path: Path, within: Path | None) -> Iterator[dict[str, str]]:
    """The variables, headers and tokens of every entry of a file; none of one that cannot be read, which says so where an
    entry is needed."""
    from jaato.tools.remote.config_file import read_document
    from jaato.tools.remote.fields import Malformed

    try:
        document = read_document(path, within)
    except Malformed:
        return
    left = MAX_VALUES
    tables = [document[key] for key in ENTRIES if isinstance(document.get(key), dict)]
    for entry in (entry for table in tables for entry in table.values() if isinstance(entry, dict)):
        for table in (*(entry.get(key) for key in TABLES), {"token": entry.get("token")}):
            if isinstance(table, dict):
                texts = {key: value for key, value in table.items() if isinstance(value, str)}
                left -= len(texts)
                if left < 0:
                    return
                yield texts
