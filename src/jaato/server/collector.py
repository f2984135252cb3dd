"""The collector of what nobody refers to, which holds the loop while it looks."""

from __future__ import annotations

import gc


def set_aside() -> None:
    """What is loaded stays for good: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
