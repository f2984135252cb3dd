"""`python rich_client.py --connect PATH`: a terminal at a session of the server, under the name the documents give it."""

from __future__ import annotations

import sys

from jaato.cli import attach as main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
