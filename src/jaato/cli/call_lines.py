"""Calls and their results in a few words."""

from __future__ import annotations

from typing import Any

from jaato.cli.screen import one_line
from jaato.protocol.messages import Text, ToolResult

SHOWN_LINES = 8


def printable_line(text: str) -> str:
    """A reason on one line, whole."""
    return one_line(text, 1_000)


def call_text(tool: str, arguments: dict[str, Any], width: int) -> str:
    """A call on one line."""
    parts = [f"{name}={value_text(value)}" for name, value in arguments.items()]
    if list(arguments) == ["command"]:
        parts = [str(arguments["command"])]
    return one_line(" ".join([tool, *parts]), max(20, width))


def value_text(value: Any) -> str:
    """An argument, cut where it is long."""
    if isinstance(value, str):
        first = value.split("\n", 1)[0]
        cut = first if len(first) <= 60 else first[:59] + "…"
        more = f" (+{len(value) - len(cut)} characters)" if len(value) > len(cut) else ""
        return f"{cut!r}{more}" if " " in cut or not cut else f"{cut}{more}"
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def result_lines(result: ToolResult) -> list[str]:
    """The first lines of what a tool gave back."""
    text = "\n".join([part.text for part in result.content if isinstance(part, Text)])
    lines = text.splitlines()
    more = [f"… {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return [*[one_line(line, 200) for line in lines[:SHOWN_LINES]], *more]
