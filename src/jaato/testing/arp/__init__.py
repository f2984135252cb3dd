"""The contract of a tool registry as checks of any URL, from outside: `python -m jaato.testing.arp URL`. Needs nothing but Python."""

from __future__ import annotations

from jaato.testing.arp.checks import CHECKS
from jaato.testing.arp.peer import Reply, Served, Skip
from jaato.testing.arp.transport import CHECKS as TRANSPORT

ALL = (*CHECKS, *TRANSPORT)
"""Every check, in order; each takes a `Served` and raises AssertionError, or `Skip` where it cannot be made."""

__all__ = ["ALL", "Reply", "Served", "Skip"]
