"""What a model reads of a program at a terminal."""

from __future__ import annotations

import signal
from typing import Any

from jaato.plugins.terminal.session import Session, State
from jaato.tools.processes.sandbox.access import sandbox_fields

MAX_LINES = 400
MAX_CHARS = 16_000
HIDDEN = "[secret]"
SHORT = 4


def shown(session: Session, state: State, *, whole: bool) -> dict[str, Any]:
    """The state of a program and what its screen shows, anew or whole; every part of it is bounded."""
    lines, missed = session.news(whole)
    if session.secrets:  # before anything is cut, so that no part of one is left
        lines = masked("\n".join(lines), session.secrets).split("\n") if lines else lines
    kept = lines[-MAX_LINES:]
    size = 0
    for number in range(len(kept) - 1, -1, -1):
        size += len(kept[number]) + 1
        if size > MAX_CHARS and number < len(kept) - 1:
            kept = kept[number + 1 :]
            break
    value: dict[str, Any] = {"session_id": session.id, "state": state.name, **sandbox_fields(session.access)}
    if state.secret:
        value["secret"] = True
    if session.ended is not None:
        value |= ended_fields(session)
    value["screen"] = "\n".join(kept)[-MAX_CHARS * 2 :]
    screen = session.screen
    if session.ended is None:
        value["cursor"] = {"row": screen.row + 1, "column": screen.column + 1}
    if screen.grid.aside is not None:
        value["full_screen"] = True
    if len(kept) < len(lines):
        value["omitted_lines"] = len(lines) - len(kept)
    if missed:
        value["missed_bytes"] = missed
    return value


def ended_fields(session: Session) -> dict[str, Any]:
    """How a program ended."""
    ended = session.ended
    assert ended is not None
    value: dict[str, Any] = {}
    if ended.code is not None and ended.code >= 0:
        value["exit_code"] = ended.code
    elif ended.code is not None:
        value["signal"] = signal_name(-ended.code)
    if session.problem:
        value["note"] = session.problem
    elif ended.left:
        value["note"] = f"Still running at its exit, so killed: {'; '.join(ended.left)}."
    if ended.stuck:
        value["note"] = f"Could not be killed yet, and still being tried: {'; '.join(ended.stuck)}."
    return value


def listed(session: Session) -> dict[str, Any]:
    """A program in a few words."""
    state = session.state()
    value: dict[str, Any] = {
        "session_id": session.id,
        "command": session.line[:200],
        "state": state.name,
        "started_at": session.begun_at,
        **sandbox_fields(session.access),
    }
    return value | (ended_fields(session) if session.ended is not None else {})


def masked(text: str, secrets: set[str]) -> str:
    """The text without what was typed where it is not shown, also where the screen's edge has broken it."""
    for secret in sorted(secrets, key=len, reverse=True):
        wanted = "".join(secret.split())
        text = hidden(text, wanted) if len(wanted) >= SHORT else text.replace(secret, HIDDEN)
    return text


def hidden(text: str, wanted: str) -> str:
    """The text without this, however many blanks and line ends are between its characters."""
    places = [place for place, char in enumerate(text) if not char.isspace()]
    solid = "".join(text[place] for place in places)
    parts, done, at = [], 0, solid.find(wanted)
    while at >= 0:
        parts += [text[done : places[at]], HIDDEN]
        done = places[at + len(wanted) - 1] + 1
        at = solid.find(wanted, at + len(wanted))
    return "".join([*parts, text[done:]])


def signal_name(number: int) -> str:
    """SIGKILL for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
