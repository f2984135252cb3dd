"""`python -m jaato`."""

from __future__ import annotations

import os
import sys

if sys.path and not sys.flags.safe_path:
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = ""
    # `-m` puts the current directory there, which is a workspace: nothing of it is imported
    if sys.path[0] in ("", here):
        del sys.path[0]

from jaato.cli import main

if __name__ == "__main__":
    sys.exit(main())
