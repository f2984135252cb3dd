"""Run a command, report its failure on stderr, and return its exit code."""

from __future__ import annotations

import builtins
import errno
import importlib
import os
import sys

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import NoReturn, TextIO

MAX_MESSAGE_CHARS = 4000
RESTRICTED: dict[str, tuple[str | None, ...]] = {
    "permissions": ("trust", "revoke"),
    "plugins": ("trust", "untrust"),
    "mcp": ("add", "remove", "trust", "login", "logout"),
    "registry": ("add", "remove", "trust"),
    "tokens": ("add", "remove"),
    "web": (None,),
    "login": (None,),
    "logout": (None,),
}
"""Commands and actions that change permissions, trust, settings or keys; `config --trust` is another."""
OK, ERROR, USAGE, PROVIDER, DENIED, LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def run(args: Namespace) -> int:
    """Set the encoding of the standard streams, run the command, and return its exit code."""
    vars(builtins).update(
        exit=sys.exit, quit=sys.exit
    )  # the interpreter's close stdin when a tool calls them
    set_encoding()
    return finish(run_command(args))


def set_encoding() -> None:
    """Have the standard streams take every character: data is UTF-8, a terminal has an encoding of its own."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
            if stream is sys.stdout and not stream.isatty():
                reconfigure(encoding="utf-8")


def finish(code: int) -> int:
    """Flush the output and return the exit code, or `ERROR` when the output cannot be written."""
    if not flush_stdout():
        code = code or ERROR
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        discard_output(sys.stderr)  # else the interpreter retries at exit, fails, and exits with 120
    return code


def leave(code: int) -> NoReturn:
    """End the process after the functions of `atexit`, without freeing each object: that is a twelfth of a short run."""
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001 what the interpreter calls at its end
    code = finish(code)
    flush_files()
    os._exit(code)


def flush_files() -> None:
    """Write what is in the buffers of files that are still open, such as the log of a plugin."""
    import gc
    from contextlib import suppress
    from io import BufferedRandom, BufferedWriter, TextIOWrapper
    from itertools import compress
    from stat import S_ISREG

    kinds: list[type] = [TextIOWrapper, BufferedWriter, BufferedRandom]
    for kind in kinds:  # which grows
        kinds += type.__subclasses__(kind)
    ids = set(map(id, kinds))
    objects = gc.get_objects()
    for file in compress(
        objects, map(ids.__contains__, map(id, map(type, objects)))
    ):  # runs no code of theirs
        # it may be closed, its disk full, or its class third-party code
        with suppress(BaseException):
            if S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe might block
                file.flush()


def open_missing_streams() -> None:
    """Replace closed standard streams with /dev/null, so that no file opened later becomes stdout."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 for good


def run_command(args: Namespace) -> int:
    """Call the command's `main`, and report what it raises; with `JAATO_DEBUG` errors propagate with a traceback."""
    try:
        if is_restricted(args):
            from jaato.tools.processes.call_processes import require_outside_call

            require_outside_call()
        code: int = importlib.import_module(args.module).main(args)
    except KeyboardInterrupt:
        print_message("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return OK
    except BaseException as error:
        from jaato.settings import environment

        if isinstance(error, (SystemExit, GeneratorExit)) or environment().get("JAATO_DEBUG", "0") not in (
            "",
            "0",
        ):
            raise
        return report_error(error)
    return code


def is_restricted(args: Namespace) -> bool:
    """Whether the command changes permissions, trust, settings or keys, which a tool call may not do."""
    action = getattr(args, "key_action", None) or getattr(args, "action", None)
    return action in RESTRICTED.get(args.command, ()) or (args.command == "config" and args.trust)


def report_error(error: BaseException) -> int:
    """Print what failed and what to do about it; return the exit code."""
    from jaato.errors import JaatoError

    match error:
        case JaatoError():
            print_message(str(error))
            return error.exit_code
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO, filename=None):
            discard_output()
            print_message(f"The output cannot be written: {error.strerror}.")
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            print_message(f"{place}{error.strerror or error}")
        case BaseExceptionGroup():
            ours = [one for one in error.exceptions if isinstance(one, JaatoError)]
            return report_error((ours or error.exceptions)[0])
        case MemoryError():
            print_message("Out of memory.")
        case _:
            text = " ".join(str(error).split())[:500]
            print_message(
                f"Internal error: {type(error).__name__}: {text} (JAATO_DEBUG=1 shows the traceback)"
            )
    return ERROR


def print_message(text: str) -> None:
    """Print a message of the program on stderr."""
    from jaato.cli.output.console import printable

    if len(text) > MAX_MESSAGE_CHARS:
        half = MAX_MESSAGE_CHARS // 2
        text = f"{text[:half]} … ({len(text) - 2 * half:,} characters) … {text[-half:]}"
    try:
        print(f"jaato: {printable(text)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # stderr is closed; the exit code still reports the failure


def discard_output(stream: TextIO | None = None) -> None:
    """Redirect a stream (stdout) to /dev/null after its reader exited, so that buffered output does not fail at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, (stream or sys.stdout).fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass  # the stream has no descriptor


def flush_stdout() -> bool:
    """Flush stdout; False when it cannot be written, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        print_message(f"The output cannot be written: {error.strerror}.")
        return False
    return True
