"""How much a server may have open at once, of anything that takes a descriptor."""

from __future__ import annotations

import resource

MAX_CONNECTIONS = 512


def most_connections(doors: int = 1) -> int:
    """As many connections as one of several doors may have and leave descriptors enough for the others and for the work."""
    return share_of_files(MAX_CONNECTIONS, doors)


def share_of_files(most: int, doors: int = 1) -> int:
    """At most so many, fewer where files are few: a quarter of the process's, for one of several doors; never under 16."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = most if soft == resource.RLIM_INFINITY else min(most, soft // 4)
    return max(16, allowed // doors)
