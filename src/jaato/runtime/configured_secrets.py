"""Values that are configured for MCP servers and registries: secret, whatever they are called, before any of them is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaato.settings import Settings, home_of
from jaato.tools.configured import PLACE, Malformed, content_of, value_of
from jaato.tools.secret_words import configured_secrets

MCP_FILE, REGISTRIES_FILE = ".mcp.json", "registries.json"
ENTRIES = ("mcpServers", "servers", "registries")
TABLES = ("env", "headers")
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
        for values in tables_in(path, within, settings.environ):
            for name, value in configured_secrets(values).items():
                found[name if found.get(name, value) == value else f"{name}.{len(found)}"] = value
    return found


def tables_in(path: Path, within: Path | None, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables, headers and tokens of every entry of a file, filled in; none of one that cannot be read, which says so
    where an entry is needed."""
    try:
        document = json.loads((content_of(path, within) or b"{}").decode("utf-8-sig"))
    except (Malformed, ValueError, RecursionError):
        return
    left = MAX_VALUES
    for entry in entries_in(document):
        given = [entry.get(kind) for kind in TABLES]
        for table in (*given, {"token": entry.get("token")}):
            texts = (
                {key: value for key, value in table.items() if isinstance(value, str)}
                if isinstance(table, dict)
                else {}
            )
            left -= len(texts)
            if left < 0:
                return
            yield {
                key: PLACE.sub(lambda one: value_of(one, environ) or "", value)
                for key, value in texts.items()
            }


def entries_in(document: Any) -> Iterator[dict[str, Any]]:
    """Every entry, in whichever table of the document it stands."""
    for kind in ENTRIES:
        table = document.get(kind) if isinstance(document, dict) else None
        for entry in table.values() if isinstance(table, dict) else ():
            if isinstance(entry, dict):
                yield entry
