"""How the commands of a session are confined, in a line or a few."""

from __future__ import annotations

from collections.abc import Iterator

from jaato.cli.screen import Screen, one_line
from jaato.protocol.specs import SandboxView

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
