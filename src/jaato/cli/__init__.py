"""The command line: `jaato run`, `jaato chat` and the other commands."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["attach", "main"]

COLLECT_AFTER = 10_000
"""New objects after which garbage is collected. Nearly all of the 100,000 that a start makes stay, and looking through them
at every 700, as is usual, takes a tenth of its time."""
UNPROTECTED = ("-h", "--help", "--version")
"""Arguments that need no clean environment: they use no key."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code.

    0 ok, 1 error, 2 usage, 3 provider, 4 denied, 5 limit, 130 interrupted. Without `argv`, the arguments are those of this
    process; if it is a process of this program, its environment is removed from view, and it ends here. With `argv`, the
    process is not changed.
    """
    return run_program(sys.argv[1:] if argv is None else argv, own=argv is None)


def run_program(words: Sequence[str], *, own: bool) -> int:
    """Run one command line; `own` is that of this process. A process of this program ends with it, and so does another one
    in which it has left a thread that may never end, such as that of a cancelled tool."""
    words = add_default_command(words)
    if not own:
        return run_line(words)
    import gc
    import threading

    from jaato.cli.clean_environment import is_program, protect
    from jaato.cli.exit_codes import leave

    if is_program():
        gc.set_threshold(COLLECT_AFTER)
        if words and words[0] not in UNPROTECTED:
            protect()
        leave(run_line(words))
    before = threading.enumerate()
    code = run_line(words)
    if any(not thread.daemon for thread in threading.enumerate() if thread not in before):
        leave(code)
    return code


def add_default_command(words: Sequence[str]) -> Sequence[str]:
    """The command line with `tui` before it where it begins with an option or a prompt of several words, or is empty at a
    terminal."""
    if not words:
        return ["tui"] if sys.stdin is not None and sys.stdin.isatty() else words
    first = words[0]
    is_option = first.startswith("-") and first not in UNPROTECTED
    return ["tui", *words] if is_option or len(first.split()) > 1 else words


def run_line(words: Sequence[str]) -> int:
    """Parse and run one command line."""
    from jaato.cli.arguments.parser import explain_unknown_command, make_parser
    from jaato.cli.exit_codes import USAGE, finish, open_missing_streams, print_message, run

    open_missing_streams()
    parser = make_parser(words[0] if words else None)
    try:
        first = next((word for word in words[:2] if word != "tui"), "")
        is_default = words[:1] == ["tui"] and not first.startswith("-")
        if first and not is_default and (unknown := explain_unknown_command(first)):
            parser.error(unknown)
        args = parser.parse_args(words)
        if "module" not in args:
            parser.print_help(sys.stderr)
            print_message("Without a terminal, name a command: `jaato run PROMPT` runs one prompt.")
            return finish(USAGE)
    except SystemExit as leaving:
        return finish(leaving.code if isinstance(leaving.code, int) else USAGE)
    return run(args)


def attach(argv: Sequence[str] | None = None) -> int:
    """`jaato attach --new` with these arguments, or those of this process: a terminal at a session of a server, which is
    started where the directory has none; full-screen where that is installed."""
    return run_program(
        ["attach", "--new", "--full-screen", *(sys.argv[1:] if argv is None else argv)], own=argv is None
    )
