"""Adding servers to `.mcp.json` and taking them out, with everything else in the file left as it is."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig, Table, document_of
from jaato.plugins.mcp.entry import server_of
from jaato.protocol.codec import is_unicode
from jaato.tools.atomic import locked, read_small, write_private
from jaato.tools.configured import MAX_FILE_BYTES, Malformed, Scope, resolved


def add(
    path: Path, scope: Scope, name: str, entry: dict[str, Any], state_dir: Path, *, replace: bool = False
) -> None:
    """Put a server into a file, which is made when there is none. Raises `ConfigError`, OSError."""
    try:
        checked: ServerConfig = server_of(name, document_of(json.dumps(entry).encode()), scope, path)
    except Malformed as error:
        raise ConfigError(f"The MCP server {name!r} {error}.") from None

    def change(servers: dict[str, Any]) -> None:
        if checked.name in servers and not replace:
            raise ConfigError(f"{path} has a server {name!r} already; give --replace, or another name.")
        servers[checked.name] = entry

    edit(path, scope, state_dir, change)


def remove(path: Path, scope: Scope, name: str, state_dir: Path) -> None:
    """Take a server out of a file, broken or not. Raises `ConfigError`, OSError."""

    def change(servers: dict[str, Any]) -> None:
        if servers.pop(name, None) is None:
            raise ConfigError(f"{path} has no server {name!r}; `jaato mcp list` shows where each one is.")

    edit(path, scope, state_dir, change)


def edit(path: Path, scope: Scope, state_dir: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the table of servers in a file, one process at a time, whole or not at all."""
    target = resolved(path)
    if scope == "workspace" and not target.is_relative_to(resolved(path.parent)):
        raise ConfigError(
            f"{path} leads out of the workspace by a link, which is not written; put a file in its place."
        )
    with locked(state_dir / "mcp-edit"):
        content = read_small(target, MAX_FILE_BYTES)
        try:
            document = document_of(content) if content is not None else Table([])
        except Malformed as error:
            raise ConfigError(f"{path} {error}.") from None
        key = "servers" if "servers" in document and "mcpServers" not in document else "mcpServers"
        servers = document.setdefault(key, {})
        if not isinstance(servers, dict):
            raise ConfigError(f'{path}: "{key}" must be an object; correct it.')
        if doubled(document) or doubled(servers):
            raise ConfigError(f"{path} has a key twice; remove one of the two first, so that none is lost.")
        change(servers)
        mode = stat.S_IMODE(os.stat(target).st_mode) if content is not None else new_mode(scope)
        try:
            text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        except ValueError:
            raise ConfigError(
                f"{path} has NaN or Infinity in it, which is no JSON; correct it first."
            ) from None
        written = (text if is_unicode(text) else json.dumps(document, indent=2)).encode() + b"\n"
        if len(written) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} would have more than {MAX_FILE_BYTES:,} bytes; remove servers first.")
        write_private(target, written)
        if mode != 0o600:
            target.chmod(mode)


def new_mode(scope: Scope) -> int:
    """A new file of the user's is private; one of a workspace is there to be shared."""
    return 0o600 if scope == "user" else 0o644


def doubled(table: Any) -> bool:
    """Whether a key came twice, here or anywhere below."""
    waiting = [table]
    while waiting:
        match waiting.pop():
            case Table() as found:
                if found.doubled:
                    return True
                waiting += found.values()
            case dict() as made:
                waiting += made.values()
            case list() as items:
                waiting += items
    return False
