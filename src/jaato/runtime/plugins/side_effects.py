"""What code has changed in the process around it: noticed, so that a person can be told."""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass

from jaato.settings import environment

MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The process as it was at one moment."""

    path: tuple[str, ...]
    variables: dict[str, str]
    signals: dict[str, int]
    threads: frozenset[int]
    place: str
    streams: tuple[int, ...]

    def changed(self, after: Surroundings) -> list[str]:
        """What differs later, each as a few words."""
        said: list[str] = []
        if self.path != after.path:
            new = [entry for entry in after.path if entry not in self.path]
            said.append(f"changed sys.path{named(new)}")
        if self.variables != after.variables:
            names = sorted(
                name
                for name in {*self.variables, *after.variables}
                if self.variables.get(name) != after.variables.get(name)
            )
            said.append(f"changed environment variables{named(names)}")
        if self.signals != after.signals:
            names = sorted(name for name, was in after.signals.items() if self.signals.get(name) != was)
            said.append(f"changed signal handlers{named(names)}")
        started = after.threads - self.threads
        if started:
            said.append(f"started {len(started)} thread{'s' if len(started) > 1 else ''}")
        if self.place != after.place:
            said.append("changed the working directory")
        if self.streams != after.streams:
            said.append("replaced a hook or stream of sys")
        return said


def surroundings() -> Surroundings:
    """The process as it is now; threads of jaato's own do not count."""
    signals = {one.name: id(signal.getsignal(one)) for one in signal.Signals if one.name != "SIGKILL"}
    threads = [
        one.ident or 0
        for one in threading.enumerate()
        if one.name not in ("jaato-plugin", "jaato-tool", "jaato-trace")
    ]
    try:
        place = os.getcwd()
    except OSError:
        place = ""
    streams = (id(sys.stdin), id(sys.stderr), id(sys.excepthook), id(sys.displayhook))
    return Surroundings(tuple(sys.path), environment(), signals, frozenset(threads), place, streams)


def named(names: list[str]) -> str:
    """The first of these names, in brackets."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" ({', '.join(names[:MAX_NAMED])}{more})"
