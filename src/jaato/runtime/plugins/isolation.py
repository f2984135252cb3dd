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
"""What a third-party plugin may raise without ending the program."""


def run_bounded(
    seconds: float,
    work: Callable[[], T],
    what: str,
    undo: Callable[[T], Any] = lambda _value: None,
    late: type[PluginError] = PluginError,
) -> T:
    """Run `work` in a daemon thread, and return its result. Raises `PluginError` saying `what` failed for any exception,
    also for an exit or an interrupt of its own, and `late` after the timeout.

    Python cannot end a thread: one that hangs is abandoned, and a late result goes to `undo`.
    """
    finished = threading.Event()
    lock = threading.Lock()
    outcome: list[tuple[Any, BaseException | None]] = []
    too_late = False

    def body() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 third-party code; its thread cannot be ended
            failure = error
        with lock:
            outcome.append((value, failure))
            abandoned = too_late
        finished.set()
        if abandoned and failure is None:
            try:
                undo(value)
            except BaseException:  # noqa: BLE001 the caller has gone on
                return

    context = copy_context()
    threading.Thread(target=context.run, args=(body,), name="jaato-plugin", daemon=True).start()
    finished.wait(seconds)
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
    message = f"{type(failure).__name__}: {short_message(failure)}"
    raise PluginError(f"{what} failed: {message}" if what else message) from failure


def short_message(error: BaseException) -> str:
    """The text of an error on one line, truncated; also for errors whose text raises."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 its text is third-party code, too
        return "(its text cannot be had)"
    return text if len(text) <= 300 else text[:299] + "…"


class StderrStream(io.TextIOBase):
    """The stdout of a plugin while it is loaded: the current stderr. Closing it does not close stderr."""

    def write(self, text: str) -> int:
        """As stderr does."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """As stderr does."""
        sys.stderr.flush()

    def close(self) -> None:
        """Do nothing: it stays open for later output."""

    def writable(self) -> bool:
        """Always."""
        return True


STDIO_LOCK = threading.Lock()
SAVED_STDIO: list[tuple[Any, Any]] = []
"""The original stdin and stdout, one entry for each running redirection."""


@contextlib.contextmanager
def redirect_stdio() -> Iterator[None]:
    """While a plugin is loaded, redirect its output to stderr and give it an empty stdin, which `exit()` may close: both
    belong to the program. Several threads may redirect at once; the last one restores them."""
    with STDIO_LOCK:
        SAVED_STDIO.append(SAVED_STDIO[0] if SAVED_STDIO else (sys.stdin, sys.stdout))
        sys.stdin, sys.stdout = open(os.devnull, encoding="utf-8"), StderrStream()  # noqa: SIM115 closed below
        nothing = sys.stdin
    try:
        yield
    finally:
        with STDIO_LOCK:
            before = SAVED_STDIO.pop()
            if not SAVED_STDIO:
                sys.stdin, sys.stdout = before
            nothing.close()


MAX_NAMED = 5


class ProcessState(msgspec.Struct, frozen=True):
    """The state of the process that plugins may change."""

    path: tuple[str, ...]
    variables: dict[str, str]
    signals: dict[str, int]
    threads: frozenset[int]
    place: str
    streams: tuple[int, ...]

    def describe_changes(self, after: ProcessState) -> list[str]:
        """The differences to a later state, each in a few words."""
        changes: list[str] = []
        if self.path != after.path:
            new = [entry for entry in after.path if entry not in self.path]
            changes.append(f"changed sys.path{first_names(new)}")
        if self.variables != after.variables:
            names = sorted(
                name
                for name in {*self.variables, *after.variables}
                if self.variables.get(name) != after.variables.get(name)
            )
            changes.append(f"changed environment variables{first_names(names)}")
        if self.signals != after.signals:
            names = sorted(name for name, was in after.signals.items() if self.signals.get(name) != was)
            changes.append(f"changed signal handlers{first_names(names)}")
        started = after.threads - self.threads
        if started:
            changes.append(f"started {len(started)} thread{'s' if len(started) > 1 else ''}")
        if self.place != after.place:
            changes.append("changed the working directory")
        if self.streams != after.streams:
            changes.append("replaced a hook or stream of sys")
        return changes


def read_process_state() -> ProcessState:
    """Read the current state of the process, without threads of jaato."""
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
    return ProcessState(tuple(sys.path), environment(), signals, frozenset(threads), place, streams)


def first_names(names: list[str]) -> str:
    """The first of these names, in brackets."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" ({', '.join(names[:MAX_NAMED])}{more})"
