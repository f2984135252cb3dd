"""A private file of JSON that several clients change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import file_lock, read_bounded, reason, write_private

MAX_BYTES = 16 << 20


def read_json(path: Path) -> object:
    """What a file has, None if it cannot be read."""
    try:
        data = read_bounded(path, MAX_BYTES)
        return json.loads(data) if data else None
    except (OSError, ValueError, ConfigError, RecursionError):
        return None


def encode(content: object) -> bytes:
    """What a file has for this."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


def change_json(path: Path, change: Callable[[object], object]) -> str:
    """Replace what a file has by a function of it; why that was not possible, as on a full or read-only disk."""
    try:
        with file_lock(path):
            write_private(path, encode(change(read_json(path))))
    except OSError as error:
        return reason(error)
    return ""
