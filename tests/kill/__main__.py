"""Kill the daemon at every boundary: `python -m tests.kill [--every N] [--again] [--only N,M,…]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import anyio
from tests.kill.every import Deaths, passages


def main() -> int:
    """Kill, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="every so manieth boundary (all of them)")
    parser.add_argument("--again", action="store_true", help="kill the servers that follow, too, early on")
    parser.add_argument(
        "--only", default="", help="one passage with deaths at these boundaries: 379 or 379,12"
    )
    args = parser.parse_args()

    def choose(boundaries: int) -> Iterable[Deaths]:
        if args.only:
            return [tuple(map(int, args.only.split(",")))]
        points = range(1, boundaries + 1, args.every)
        return [again(point) if args.again else (point,) for point in points]

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        report = anyio.run(passages, Path(place), choose)
    print(f"{report.events} durable events, {report.boundaries} boundaries")
    print(f"{report.killed} servers killed in {report.passages} passages, {time.monotonic() - begun:.0f} s")
    for deaths, found in report.wrong.items():
        print(f"killed at {','.join(map(str, deaths)) or 'no boundary'}: ", *found, sep="\n  ")
    print(f"passages with something lost, doubled or left open: {len(report.wrong)}")
    return 1 if report.wrong else 0


def again(point: int) -> Deaths:
    """Deaths at a boundary, and early in the two servers that follow: in recovery and soon after it."""
    return (point, 1 + point * 7 % 23, 1 + point * 5 % 17)


if __name__ == "__main__":
    sys.exit(main())
