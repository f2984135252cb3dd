"""The command `/mode`, and how the commands of a session are confined, as clients are told it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

import anyio.to_thread

from jaato.abc.plugin import UserCommand
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.events import SessionUpdated
from jaato.protocol.specs import Mode, SandboxView
from jaato.tools.unseen import one_line

if TYPE_CHECKING:
    from jaato.tools.processes.sandbox.sandbox import Sandbox

MODES: dict[Mode, str] = {
    "ask": "what only reads runs, the rest is asked about",
    "accept-edits": "that, and file tools change the workspace without a question",
    "auto": "that, and commands change the workspace without a question",
    "plan": "nothing but reading, until a plan is approved",
    "read-only": "nothing but reading; nothing can be opened",
}
"""Every mode, and what runs in it without a question."""
COMMAND = UserCommand("mode", "Show or change what runs without a question: mode [NAME]")
CHANGED = "The user has changed the mode of this session to {mode}: {text}."


def mode_command(session: Session, rest: str) -> str:
    """`/mode [NAME]`: what it says. Raises `ConfigError` for a mode that does not exist or cannot be had."""
    policy = session.gate.policy
    name = rest.strip()
    if not name:
        lines = [f"{'*' if mode == policy.mode else ' '} {mode:<13} {text}" for mode, text in MODES.items()]
        return "\n".join([*lines, "/mode NAME changes it for this session."])
    if name not in get_args(Mode):
        raise ConfigError(f"There is no mode {one_line(name, 60)!r}; there are {', '.join(MODES)}.")
    mode = cast("Mode", name)
    if session.is_subagent:
        raise JaatoError("The mode is the session's; change it there.")
    if mode != policy.mode:
        session.gate.set_mode(mode)
        session.notify(CHANGED.format(mode=mode, text=MODES[mode]))
    return f"The mode is {mode}: {MODES[mode]}."


def keep_mode(session: Session, mode: Mode) -> None:
    """Write the mode into the log, so that the session goes on in it. Raises `StoreError`."""
    session.journal.record(SessionUpdated(**session.journal.head(), mode=mode))


async def find_backend(session: Session) -> None:
    """Look for what confines the commands of a session, away from the loop: it is run for that."""
    sandbox: Sandbox | None = session.services["registry"].services.get("sandbox")
    if sandbox is not None:
        await anyio.to_thread.run_sync(lambda: sandbox.backend)


def sandbox_view(session: Session) -> SandboxView:
    """How the commands of a session are confined now; see `find_backend`."""
    policy = session.gate.policy
    sandbox: Sandbox | None = session.services["registry"].services.get("sandbox")
    backend = sandbox.backend if sandbox is not None else None
    return SandboxView(
        backend=backend.name if backend is not None else "",
        profiles=sorted(sandbox.profiles) if sandbox is not None else [],
        mode=policy.mode,
        domains=list(policy.access.domains),
        paths=list(policy.access.paths),
        full=policy.access.profile == "full",
    )
