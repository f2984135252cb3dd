"""Adding registries to `registries.json` and taking them out, with everything else in the file left as it is."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.plugins.arp.config import KEY, document_of
from jaato.plugins.arp.entry import registry_of
from jaato.tools.atomic import locked, read_small, write_private
from jaato.tools.configured import MAX_FILE_BYTES, Malformed, Scope, resolved


def add(
    path: Path, scope: Scope, name: str, entry: dict[str, Any], state_dir: Path, *, replace: bool = False
) -> None:
    """Put a registry into a file, which is made when there is none. Raises `ConfigError`, OSError."""
    try:
        registry_of(name, entry, scope, path)
    except Malformed as error:
        raise ConfigError(f"The registry {name!r} {error}.") from None

    def change(entries: dict[str, Any]) -> None:
        if name in entries and not replace:
            raise ConfigError(f"{path} has a registry {name!r} already; give --replace, or another name.")
        entries[name] = entry

    edit(path, scope, state_dir, change)


def remove(path: Path, scope: Scope, name: str, state_dir: Path) -> None:
    """Take a registry out of a file, broken or not. Raises `ConfigError`, OSError."""

    def change(entries: dict[str, Any]) -> None:
        if name not in entries:
            raise ConfigError(
                f"{path} has no registry {name!r}; `jaato registry list` shows where each one is."
            )
        del entries[name]

    edit(path, scope, state_dir, change)


def edit(path: Path, scope: Scope, state_dir: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the table of registries in a file, one process at a time, whole or not at all."""
    target = resolved(path)
    if scope == "workspace" and not target.is_relative_to(resolved(path.parent.parent)):
        raise ConfigError(
            f"{path} leads out of the workspace by a link, which is not written; put a file in its place."
        )
    with locked(state_dir / "registries-edit"):
        content = read_small(target, MAX_FILE_BYTES)
        try:
            document = document_of(content) if content is not None else {}
        except Malformed as error:
            raise ConfigError(f"{path} {error}.") from None
        entries = document.setdefault(KEY, {})
        if not isinstance(entries, dict):
            raise ConfigError(f'{path}: "{KEY}" must be an object; correct it.')
        change(entries)
        written = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
        if len(written) > MAX_FILE_BYTES:
            raise ConfigError(
                f"{path} would have more than {MAX_FILE_BYTES:,} bytes; remove registries first."
            )
        fresh = 0o600 if scope == "user" else 0o644  # one of a workspace is there to be shared
        mode = stat.S_IMODE(os.stat(target).st_mode) if content is not None else fresh
        write_private(target, written)
        if mode != 0o600:
            target.chmod(mode)
