"""One long call: its timeout, which progress extends and a question to the user stops, and its progress as output."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

from jaato.plugins.mcp.elicitation import CallContext

MOST_TIMES = 12
"""How many times its deadline a call may take that goes on showing progress."""
PROGRESS_EVERY_S = 0.1


class Deadline:
    """The time a call has: progress gives it more, a question to the user stops it, nothing makes it endless."""

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope()
        self._seconds = seconds
        self._held = 0
        self._last = anyio.current_time() + seconds * MOST_TIMES
        self.more()

    def more(self) -> None:
        """The server has shown that it is at work."""
        if not self._held:
            self.scope.deadline = min(anyio.current_time() + self._seconds, self._last)

    def hold(self) -> None:
        """The user is asked; that time is not the server's."""
        self._held += 1
        self._left = self._last - anyio.current_time()
        self.scope.deadline = math.inf

    def go_on(self) -> None:
        """The user has answered."""
        self._held -= 1
        if not self._held:
            self._last = anyio.current_time() + max(self._left, self._seconds)
            self.more()


def progress_output(
    caller: CallContext, deadline: Deadline
) -> Callable[[float, float | None, str | None], None]:
    """Progress as output of the call, not more of it than can be read."""
    last, at_end = 0.0, False

    def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last, at_end
        deadline.more()
        now = anyio.current_time()
        arrives = progress == total and not at_end  # the end is shown at once, and once
        if now - last < PROGRESS_EVERY_S and not arrives:
            return
        last, at_end = now, at_end or arrives
        share = f"{figure(progress)}/{figure(total)}" if total else figure(progress)
        caller.call.output(f"[{share}] {message[:500]}\n" if message else f"[{share}]\n")

    return show


def figure(number: float) -> str:
    """A number as it is shown; a server may send one that is too large to be any."""
    try:
        return f"{number:g}"
    except OverflowError:
        return "?"
