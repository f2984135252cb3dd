"""The command line: `jaato run`, `jaato chat` and the commands around them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

SHORT = ("-h", "--help", "--version")
"""What is over before a second image of the program would have started, and uses no key."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (without the program's name) and return its exit code.

    0 ok, 1 error, 2 usage, 3 provider, 4 denied, 5 limit, 130 interrupted. Without `argv` it is that of this program,
    which is re-executed with a clean environment; given one, the process is left as it is.
    """
    words = sys.argv[1:] if argv is None else argv
    if argv is None and words and words[0] not in SHORT:
        from jaato.cli.clean_environment import protect

        protect()
    from jaato.cli.arguments.parser import make_parser
    from jaato.cli.ending import USAGE, carry_out, ended

    parser = make_parser(words[0] if words else None)
    try:
        args = parser.parse_args(words)
        if "module" not in args:
            parser.print_help(sys.stderr)
            return ended(USAGE)
    except SystemExit as leaving:
        return ended(leaving.code if isinstance(leaving.code, int) else USAGE)
    return carry_out(args)
