"""`python -m bench [NAME …]`: measure the figures and print them beside their bounds."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys

import bench
from bench.row import Row

APART = {
    "row",
    "near_words",
    "local_held_out",
    "discovery",
    "local",
    "local_cases",
    "local_unseen",
    "__main__",
}
"""Modules that are no part of the table: they are run by name."""


def modules(wanted: list[str]) -> list[str]:
    """The benchmark modules asked for, all of them by default."""
    names = sorted(info.name for info in pkgutil.iter_modules(bench.__path__))
    return wanted or [name for name in names if name not in APART]


def line(row: Row) -> str:
    """One row of the table."""
    bound = f"{row.bound:g}" if row.bound is not None else "-"
    verdict = "" if row.bound is None else ("ok" if row.value <= row.bound else "OVER")
    return f"{row.name:<72} {row.value:>12.4g} {row.unit:<8} {bound:>8} {verdict:<5} {row.against}"


def main() -> int:
    """Print the table; the exit code says how many figures are over their bounds."""
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    print(f"{'figure':<72} {'measured':>12} {'unit':<8} {'bound':>8} {'':<5} against")
    over = 0
    for name in modules(sys.argv[1:]):
        module = importlib.import_module(f"bench.{name}")
        rows = getattr(module, "rows", None)
        if rows is None:
            continue
        for row in rows():
            print(line(row), flush=True)
            over += row.bound is not None and row.value > row.bound
    return min(over, 100)


if __name__ == "__main__":
    sys.exit(main())
