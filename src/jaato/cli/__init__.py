"""The command line: `jaato run`, `jaato chat` and the commands around them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (without the program's name) and return its exit code.

    0 ok, 1 error, 2 usage, 3 provider, 4 denied, 5 limit, 130 interrupted.
    """
    from jaato.cli.ending import USAGE, carry_out, ended
    from jaato.cli.parser import make_parser

    parser = make_parser()
    try:
        args = parser.parse_args(argv)
        if "module" not in args:
            parser.print_help(sys.stderr)
            return ended(USAGE)
    except SystemExit as leaving:
        return ended(leaving.code if isinstance(leaving.code, int) else USAGE)
    return carry_out(args)
