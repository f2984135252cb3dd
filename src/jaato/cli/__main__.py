"""`python -m jaato.cli`."""

from __future__ import annotations

import sys

from jaato.cli import main

if __name__ == "__main__":
    sys.exit(main())
