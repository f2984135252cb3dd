"""How a terminal leaves a session of the server: by itself, by a signal, or because it was closed."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from jaato.cli.ending import INTERRUPTED
from jaato.cli.signals import restore_terminal
from jaato.errors import JaatoError
from jaato.protocol.commands import SessionDetach

if TYPE_CHECKING:
    from jaato.cli.joined import Joined

PATIENCE = 3
"""How often Ctrl-C must be pressed in one turn until the program itself ends."""


def signalled(joined: Joined, number: int) -> None:
    """Ctrl-C stops the turn, SIGTERM what this terminal has begun; to the server a closed terminal is a lost connection."""
    if number != signal.SIGINT:
        joined.code = INTERRUPTED
    if not hasattr(joined, "session"):
        joined.task.cancel()  # nothing is open yet
    elif number == signal.SIGINT:
        interrupted(joined)
    elif number == signal.SIGHUP:
        joined.cut_off = joined.leaving = True
        joined.hearing.changed.set()
    else:
        joined.desk.later(end(joined))


def interrupted(joined: Joined) -> None:
    """Stop the turn; who presses again and again ends the program."""
    if not joined.busy:
        joined.hint()
        return
    joined.hearing.presses += 1
    if joined.hearing.presses >= PATIENCE:
        restore_terminal()
        os._exit(INTERRUPTED)
    joined.desk.later(joined.session.stop())


async def end(joined: Joined) -> None:
    """Leave in order; what the command line began is stopped before."""
    if joined.creation is not None and joined.busy:
        joined.hearing.ending = True
        await joined.session.stop()
    else:
        joined.leaving = True
        joined.hearing.changed.set()


async def close(joined: Joined) -> None:
    """Leave the session: what the command line said of it holds no more. A closed terminal says nothing any more."""
    joined.hearing.stop()
    if joined.cut_off:
        return
    for task in joined.session.state.tasks.values() if joined.creation is not None else ():
        text = f"background task {task.task_id} ({task.tool}) still runs and is stopped now"
        joined.screen.note(text, "yellow")
    joined.session.watched = False
    try:
        async with asyncio.timeout(None if joined.creation is not None else 5.0):
            await joined.client.ask(SessionDetach(session_id=joined.session.id))
    except (JaatoError, TimeoutError):
        pass  # the server is away, and forgets this terminal by itself
