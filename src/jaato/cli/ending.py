"""How a command ends: every failure as one message that says what to do, and an exit code."""

from __future__ import annotations

import builtins
import errno
import importlib
import os
import sys
import threading

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import TextIO

MAX_MESSAGE_CHARS = 4000
WRITING: dict[str, tuple[str | None, ...]] = {
    "permissions": ("trust", "revoke"),
    "plugins": ("trust", "untrust"),
    "mcp": ("add", "remove", "trust", "login", "logout"),
    "registry": ("add", "remove", "trust"),
    "tokens": ("add", "remove"),
    "login": (None,),
    "logout": (None,),
}
"""Commands, and their actions, that write permissions, trust, settings or keys; `config --trust` is another."""
OK, ERROR, USAGE, PROVIDER, DENIED, LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def carry_out(args: Namespace) -> int:
    """Run the command the arguments name; no failure of it leaves as a traceback, unless `JAATO_DEBUG` is set."""
    fill_streams()
    vars(builtins).update(
        exit=sys.exit, quit=sys.exit
    )  # those of the interpreter close stdin, when a tool calls them
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
            if stream is sys.stdout and not stream.isatty():
                reconfigure(encoding="utf-8")  # a terminal says what it can show; data is data
    return ended(guarded(args))


def ended(code: int) -> int:
    """The exit code of a command that is over: what it wrote is written out now, or counts as an error."""
    if not flushed():
        code = code or ERROR
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        mute(sys.stderr)  # else the interpreter tries again at its end, fails, and makes the code 120
    leave_threads(code)
    return code


def fill_streams() -> None:
    """Stand in for standard streams that were closed: no file of ours may become the program's stdout."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 for good


def guarded(args: Namespace) -> int:
    """The exit code of the command, with what it raised said on stderr."""
    try:
        if loosens(args):
            from jaato.tools.processes.call_processes import require_outside_call

            require_outside_call()
        code: int = importlib.import_module(args.module).main(args)
    except KeyboardInterrupt:
        say("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        mute()
        return OK
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit)) or debugging():
            raise
        return complain(error)
    return code


def loosens(args: Namespace) -> bool:
    """Whether a command writes permissions, trust, settings or keys, which none does that a tool has started."""
    action = getattr(args, "key_action", None) or getattr(args, "action", None)
    return action in WRITING.get(args.command, ()) or (args.command == "config" and args.trust)


def complain(error: BaseException) -> int:
    """Say what went wrong and what to do; gives the exit code."""
    from jaato.errors import JaatoError

    match error:
        case JaatoError():
            say(str(error))
            return error.exit_code
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO, filename=None):
            mute()
            say(f"The output cannot be written: {error.strerror}.")
            return ERROR
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            say(f"{place}{error.strerror or error}")
            return ERROR
        case BaseExceptionGroup():
            ours = [one for one in error.exceptions if isinstance(one, JaatoError)]
            return complain((ours or error.exceptions)[0])
        case MemoryError():
            say("There is not enough memory for this.")
            return ERROR
    text = " ".join(str(error).split())[:500]
    say(f"Something is wrong in jaato itself: {type(error).__name__}: {text} (JAATO_DEBUG=1 shows where)")
    return ERROR


def debugging() -> bool:
    """Whether the user wants to see tracebacks."""
    from jaato.settings import environment

    return environment().get("JAATO_DEBUG", "") not in ("", "0")


def say(text: str) -> None:
    """A message of the program on stderr, if anybody can read it."""
    from jaato.cli.output.terminal import printable

    if len(text) > MAX_MESSAGE_CHARS:
        half = MAX_MESSAGE_CHARS // 2
        text = f"{text[:half]} … ({len(text) - 2 * half:,} characters) … {text[-half:]}"
    try:
        print(f"jaato: {printable(text)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # nobody reads stderr; the exit code still tells


def mute(stream: TextIO | None = None) -> None:
    """The reader of a stream (stdout) has gone: what is still buffered goes nowhere, instead of raising at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, (stream or sys.stdout).fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass  # there is nothing to mute


def flushed() -> bool:
    """Write out what is buffered; False when it cannot be, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        mute()
    except OSError as error:
        mute()
        say(f"The output cannot be written: {error.strerror}.")
        return False
    return True


def leave_threads(code: int) -> None:
    """End at once when a thread is left that may never end, such as a tool that was cancelled."""
    main = threading.main_thread()
    if any(t is not main and t.is_alive() and not t.daemon for t in threading.enumerate()):
        os._exit(code)
