"""Pins of remote tool definitions as they were accepted, and the difference to those of now."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jaato.errors import ConfigError
from jaato.tools.filesystem.atomic import read_bounded
from jaato.tools.invisible_text import escape_all
from jaato.tools.schema import depth_within

MAX_FILE_BYTES = 33_554_432
MAX_DIFF_LINES = 400
MAX_LINE_CHARS = 2_000

P = TypeVar("P", bound=msgspec.Struct)


def read_pins(path: Path, kind: type[P], version: str, current: int, noun: str) -> P:
    """The pins in a file; none where there is none. Raises `ConfigError` for a damaged file, and for one in whose field
    `version` is not the `current` one."""
    content = read_bounded(path, MAX_FILE_BYTES)
    if content is None:
        return kind()
    try:
        known = msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        known = None
    if known is None or getattr(known, version) != current:
        raise ConfigError(
            f"{path} is damaged or of another version, so no tool of this {noun} can be told from a changed one. Remove it "
            "to accept the tools as they are now."
        )
    return known


def render_diff(before: dict[str, Any], after: dict[str, Any], was: str) -> str:
    """A unified diff of two definitions in which every character is seen."""
    lines = difflib.unified_diff(text_lines(before), text_lines(after), was, "now", lineterm="", n=2)
    shown = [
        escape_all(line)[:MAX_LINE_CHARS] for line, _ in zip(lines, range(MAX_DIFF_LINES + 1), strict=False)
    ]
    if len(shown) > MAX_DIFF_LINES:
        shown[MAX_DIFF_LINES:] = ["… the rest is not shown"]
    return "\n".join(shown)


def text_lines(definition: dict[str, Any]) -> list[str]:
    """A definition as lines: texts as they read, schemas as JSON."""
    lines: list[str] = []
    for key, value in definition.items():
        if isinstance(value, str):
            text = value.split("\n")
            lines += [f"{key}: {text[0]}", *(f"  {line}" for line in text[1:])]
        elif depth_within(value, 100):
            lines += f"{key}: {json.dumps(value, indent=2, ensure_ascii=False)}".split("\n")
    return lines
