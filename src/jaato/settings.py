"""The process's environment, read in this module only."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """A copy of the environment this process was started in."""
    return dict(os.environ)  # noqa: TID251 the one place
