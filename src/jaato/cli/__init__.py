"""The command line: `jaato run`, `jaato chat` and the commands around them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (without the program's name) and return its exit code.

    0 ok, 1 error, 2 usage, 3 provider, 4 denied, 5 limit, 130 interrupted.
    """
    from jaato.cli.ending import carry_out
    from jaato.cli.parser import make_parser

    return carry_out(make_parser().parse_args(argv))
