"""Isolates third-party plugin code: timeouts, exits, redirected standard streams, and detected side effects."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, TypeVar

import msgspec

from jaato.errors import JaatoError, PluginError
from jaato.settings import environment

T = TypeVar("T")
BROKEN = (Exception, SystemExit)
"""What a plugin of somebody else may raise without taking the program with it."""


def run_bounded(
    seconds: float,
    work: Callable[[], T],
    what: str,
    undo: Callable[[T], Any] = lambda _value: None,
    late: type[PluginError] = PluginError,
) -> T:
    """What `work` gives, from a daemon thread. Raises `PluginError` saying `what` failed, whatever it raised, an exit
    or an interrupt of its own included, and `late` when it took longer than this.

    Python cannot end a thread: one that hangs is left to itself, and what it still makes goes to `undo`.
    """
    told = threading.Event()
    lock = threading.Lock()
    outcome: list[tuple[Any, BaseException | None]] = []
    too_late = False

    def body() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 a stranger's code; its thread is not ours to end
            failure = error
        with lock:
            outcome.append((value, failure))
            nobody_waits = too_late
        told.set()
        if nobody_waits and failure is None:
            try:
                undo(value)
            except BaseException:  # noqa: BLE001 nobody is left to hear of it
                return

    context = copy_context()
    threading.Thread(target=context.run, args=(body,), name="jaato-plugin", daemon=True).start()
    told.wait(seconds)
    with lock:
        too_late = not outcome
    if too_late:
        raise late(f"{what or 'it'} has not answered for {seconds:g} seconds and is left out.")
    value, failure = outcome[0]
    if failure is None:
        result: T = value
        return result
    if isinstance(failure, JaatoError):
        raise failure
    said = f"{type(failure).__name__}: {short_message(failure)}"
    raise PluginError(f"{what} failed: {said}" if what else said) from failure


def short_message(error: BaseException) -> str:
    """What an error says, on one line, cut where it is long; errors whose text cannot be had included."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 even its text is a stranger's code
        return "(its text cannot be had)"
    return text if len(text) <= 300 else text[:299] + "…"


class StderrStream(io.TextIOBase):
    """Where a plugin prints while it is loaded: what is stderr then. It can be closed, and stderr goes on."""

    def write(self, text: str) -> int:
        """As stderr does."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """As stderr does."""
        sys.stderr.flush()

    def close(self) -> None:
        """It stays open for whoever prints next."""

    def writable(self) -> bool:
        """It is there for that."""
        return True


APART = threading.Lock()
STANDARD: list[tuple[Any, Any]] = []
"""What stdin and stdout were before the first of those that are apart from them now, one entry for each."""


@contextlib.contextmanager
def redirected_stdio() -> Iterator[None]:
    """While a plugin is loaded, what it prints goes to stderr, and it neither reads stdin nor, by `exit()`, closes it:
    both belong to the program. Several threads may be apart at once; the last one puts everything back."""
    with APART:
        STANDARD.append(STANDARD[0] if STANDARD else (sys.stdin, sys.stdout))
        sys.stdin, sys.stdout = open(os.devnull, encoding="utf-8"), StderrStream()  # noqa: SIM115 closed below
        nothing = sys.stdin
    try:
        yield
    finally:
        with APART:
            before = STANDARD.pop()
            if not STANDARD:
                sys.stdin, sys.stdout = before
            nothing.close()


MAX_NAMED = 5


class Surroundings(msgspec.Struct, frozen=True):
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
            said.append(f"changed sys.path{first_names(new)}")
        if self.variables != after.variables:
            names = sorted(
                name
                for name in {*self.variables, *after.variables}
                if self.variables.get(name) != after.variables.get(name)
            )
            said.append(f"changed environment variables{first_names(names)}")
        if self.signals != after.signals:
            names = sorted(name for name, was in after.signals.items() if self.signals.get(name) != was)
            said.append(f"changed signal handlers{first_names(names)}")
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


def first_names(names: list[str]) -> str:
    """The first of these names, in brackets."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" ({', '.join(names[:MAX_NAMED])}{more})"
