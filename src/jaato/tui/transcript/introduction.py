"""The first lines of a conversation: which session it is, where, with what, and how it is confined."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.cli.output.wording import sandbox_lines
from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State
from jaato.tui.preferences import KeyNames
from jaato.tui.transcript.lines import shorten_path

HINT = "Type a message. / lists commands, @ finds files, {app.keys} shows the keys."


def introduce(
    state: State, info: SessionInfo, home: str, notices: Sequence[tuple[str, str]], names: KeyNames
) -> list[tuple[str, str]]:
    """The lines with their colours; `notices` are those of the server about how it was opened."""
    has_begun = bool(state.turns) or state.open_turn is not None
    title = state.name or ("Session without a name" if has_begun else "New session")
    place = f"{shorten_path(state.workspace, home)} · {state.session_id}"
    lines = [(title, "bold"), (place, "dim"), *notices]
    if info.sandbox is not None:
        look = "dim" if info.sandbox.backend and not info.sandbox.full else "yellow"
        lines += [(line, look) for line in sandbox_lines(info.sandbox)]
    if has_begun:
        return lines
    lines.append((names.fill(HINT), ""))
    others = [one for one in info.sessions if one.workspace == info.workspace and one.id != state.session_id]
    if others:
        opens = names.fill("{app.sessions} opens an earlier session")
        lines.append((f"{opens} ({len(others)} in this directory).", "dim"))
    return lines
