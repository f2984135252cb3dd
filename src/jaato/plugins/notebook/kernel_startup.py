"""Runs in the kernel's own process: starts the kernel, bounds how fast it prints, and lists its variables.

A program for whichever Python the kernel is to have, 3.9 or newer; nothing of jaato is imported here.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules are not to be imported

import contextlib
import importlib
import json
import reprlib
import signal
import time
from typing import Any

RATE_CHARS = 8_000_000
MOST_CHARS = 2_000_000
SHORT_CHARS = 200
REPR_S = 0.5
PLAIN = (int, float, complex, bool, type(None), str, bytes, bytearray, list, tuple, dict, set, frozenset)
SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class RateLimit:
    """A token bucket of printed characters; a writer beyond it waits."""

    def __init__(self) -> None:
        self.room = float(RATE_CHARS)
        self.at = time.monotonic()

    def take(self, size: int) -> None:
        """Wait until this many characters may be printed."""
        now = time.monotonic()
        self.room = min(float(RATE_CHARS), self.room + (now - self.at) * RATE_CHARS) - size
        self.at = now
        if self.room < 0:
            time.sleep(min(0.5, -self.room / RATE_CHARS))


def shorten(text: str, most: int = MOST_CHARS) -> str:
    """The text, or its two ends with how much is missing between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def bound_streams() -> None:
    """Limit the rate and the size of printed pieces."""
    from ipykernel.iostream import OutStream

    bucket, write = RateLimit(), OutStream.write

    def bounded(self: Any, string: str) -> Any:
        if not isinstance(string, str):
            return write(self, string)
        bucket.take(min(len(string), MOST_CHARS))
        write(self, shorten(string))
        return len(string)

    setattr(OutStream, "write", bounded)  # noqa: B010 another type, on purpose


def bound_texts(session: Any) -> None:
    """Send lone surrogates as question marks; the message would be lost otherwise."""
    from jupyter_client.jsonutil import json_default

    inner = session.pack

    def packed(message: Any) -> Any:
        try:
            return inner(message)
        except UnicodeEncodeError:
            text = json.dumps(message, default=json_default, ensure_ascii=False, allow_nan=False)
            return text.encode("utf-8", "replace")

    session.pack = packed


class ReprTimeout(BaseException):
    """A repr took too long."""


def raise_timeout(_number: int, _frame: Any) -> None:
    """What the alarm does."""
    raise ReprTimeout


def within_time(work: Any) -> Any:
    """What the function gives within its time, or a text that says why there is nothing."""
    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, REPR_S)
    try:
        return work()
    except ReprTimeout:
        return f"[not shown: it took more than {REPR_S:g} s]"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 the object is the user's own
        return f"[not shown: it raises {type(error).__name__}]"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bounded_repr(value: Any) -> str:
    """A repr that is never long; large builtin values are not written out to be cut."""
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = SHORT_CHARS
    exact = type(value) in PLAIN
    text = brief.repr(value) if exact else repr(value)
    text = str.__getitem__(text, slice(SHORT_CHARS + 1))  # what a repr gives may be a text with tricks
    return text if len(text) <= SHORT_CHARS else text[: SHORT_CHARS - 1] + "…"


def kind_of(value: Any) -> str:
    """The name of its type."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"[:SHORT_CHARS].replace("builtins.", "", 1)


def shape(value: Any) -> Any:
    """The lengths of its sides, or None."""
    if type(value) in SIZED:
        return [len(value)]
    sides = getattr(value, "shape", None)
    return [int(side) for side in sides[:8]] if isinstance(sides, tuple) else None


def describe_variable(name: str, value: Any) -> dict[str, Any]:
    """One variable."""
    entry: dict[str, Any] = {"name": name[:SHORT_CHARS], "type": within_time(lambda: kind_of(value))}
    sides = within_time(lambda: shape(value))
    if isinstance(sides, list):
        entry["shape"] = sides
    entry["value"] = within_time(lambda: bounded_repr(value))
    return entry


def list_variables(offset: int, limit: int, within_s: float) -> str:
    """The user's variables in the order they were made, as JSON."""
    from IPython import get_ipython

    shell = get_ipython()
    hidden = shell.user_ns_hidden
    names = [
        name
        for name, value in list(shell.user_ns.items())
        if type(name) is str
        and not name.startswith("_")
        and (name not in hidden or hidden[name] is not value)
    ]
    until = time.monotonic() + within_s
    rows = []
    for name in names[offset : offset + limit]:
        if time.monotonic() > until:
            break
        rows.append(describe_variable(name, shell.user_ns[name]))
    return json.dumps({"total": len(names), "variables": rows})


def leave_out_debugger() -> None:
    """Let the kernel find no debugger, which jaato never attaches: to load it takes a quarter of the start."""
    name = "debugpy"
    sys.modules[name] = None  # type: ignore[assignment]  # what cannot be imported is there as None
    with contextlib.suppress(ImportError):
        importlib.import_module("ipykernel.debugger")  # which keeps that there is none
    del sys.modules[name]  # a cell may import it


def main() -> None:
    """Start the kernel on the connection file that is named on the command line."""
    sys.modules["_jaato_kernel"] = sys.modules["__main__"]
    leave_out_debugger()
    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    app.initialize(sys.argv[1:])
    bound_streams()
    bound_texts(app.session)
    sys.path.insert(0, "")  # from here on, cells import what lies in the workspace
    app.start()


if __name__ == "__main__":
    main()
