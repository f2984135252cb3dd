"""Render calls, their results and the sandbox as short lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jaato.cli.output.terminal import Screen, one_line, visible
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Text, ToolResult
from jaato.protocol.specs import SandboxView
from jaato.tools.permissions.access import access_text

SHOWN_LINES = 8
MAX_ARGUMENT_LINES = 30


def confined_line(event: ToolCallEnd) -> str | None:
    """In which sandbox a call's process ran, and what of it was refused; None for a call that started none."""
    access = event.permission.access if event.permission is not None else None
    found = event.result.structured if isinstance(event.result.structured, dict) else {}
    profile = found.get("sandbox") or access_text(access)
    if not profile:
        return None
    refused = found.get("refused")
    said = (
        f"; refused: {', '.join(str(one) for one in refused)}"
        if isinstance(refused, list) and refused
        else ""
    )
    return one_line(f"sandbox: {profile}{said}", 1_000)


def printable_line(text: str) -> str:
    """A reason on one line, whole."""
    return one_line(text, 1_000)


def call_text(tool: str, arguments: dict[str, Any], width: int) -> str:
    """A call on one line; a command stands as it is, before what else is said of it."""
    parts = [f"{name}={value_text(value)}" for name, value in arguments.items() if name != "command"]
    command = arguments.get("command")
    if command is not None:
        parts = [str(command), *([f"({' '.join(parts)})"] if parts else [])]
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


def indented(name: str, value: Any) -> str:
    """An argument, whole up to a screenful: what is allowed must be seen."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    lines = visible(text).split("\n")
    if len(lines) > MAX_ARGUMENT_LINES:
        left = len(lines) - MAX_ARGUMENT_LINES
        lines = [*lines[:MAX_ARGUMENT_LINES], f"… {left} more lines"]
    return f"  {name}: " + "\n    ".join(one_line_of(line) for line in lines)


def one_line_of(line: str) -> str:
    """One line of an argument, cut where it is absurdly long."""
    return line if len(line) <= 2_000 else f"{line[:2_000]}… ({len(line) - 2_000} more characters)"


NONE = "NO SANDBOX on this machine"
FULL = "NO SANDBOX for commands that a rule allows (--sandbox full)"


def sandbox_line(view: SandboxView) -> str:
    """Mode and back end in one short line."""
    return f"mode {view.mode}, sandbox {view.backend or NONE}{'; ' + FULL if view.full else ''}"


def sandbox_lines(view: SandboxView) -> Iterator[str]:
    """The same with what is opened."""
    yield sandbox_line(view)
    if view.domains:
        yield f"network {', '.join(view.domains)}"
    for path in view.paths:
        yield f"commands may also change {path}"


def tell_sandbox(screen: Screen, view: SandboxView) -> None:
    """Say it at the start of a conversation; louder where there is no sandbox."""
    opened = [*view.domains, *view.paths]
    more = f", opened: {', '.join(opened)}" if opened else ""
    line = one_line(f"{sandbox_line(view)}{more}", max(screen.width, 80))
    screen.note(line, "dim" if view.backend and not view.full else "yellow")
