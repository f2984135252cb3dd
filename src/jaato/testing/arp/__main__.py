"""`python -m jaato.testing.arp URL`: whether a registry keeps to the contract; exit code 0 when it does, 1 when not."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from jaato.testing.arp import ALL, Served


def main() -> int:
    """Check, and say of each sentence whether it holds."""
    parser = ArgumentParser("python -m jaato.testing.arp", description="Check a tool registry from outside.")
    parser.add_argument(
        "url", metavar="URL", help="where it is, such as http://127.0.0.1:8000; it serves `core`"
    )
    parser.add_argument("--token", default="", help="the token it asks for")
    parser.add_argument(
        "--denied", default="", metavar="TOOL", help="a tool without arguments that may not be called"
    )
    parser.add_argument("--raising", default="", metavar="TOOL", help="one whose handler raises an exception")
    parser.add_argument("--secret", default="", metavar="TEXT", help="what that exception says")
    parser.add_argument("--pair", default="", metavar="TOOL", help="one that takes whole numbers a and b")
    at = Served(**vars(parser.parse_args()))
    failed = 0
    for check in ALL:
        sentence = (check.__doc__ or check.__name__).strip()
        try:
            check(at)
        except (AssertionError, OSError, ValueError, LookupError, TypeError) as error:
            failed += 1
            print(f"FAILED  {sentence}\n        {type(error).__name__}: {error}")
        else:
            print(f"ok      {sentence}")
    print(f"{len(ALL) - failed} of {len(ALL)} hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
