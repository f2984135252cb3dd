"""Limits on open connections and loaded sessions, derived from the limit of file descriptors (RLIMIT_NOFILE)."""

from __future__ import annotations

import resource

MAX_CONNECTIONS = 512


def max_connections(sharing: int = 1) -> int:
    """The limit of connections for one of several listeners."""
    return limit_by_descriptors(MAX_CONNECTIONS, sharing)


def limit_by_descriptors(limit: int, sharing: int = 1) -> int:
    """A limit, lowered to a quarter of the process's descriptors and shared between several users; at least 16."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = limit if soft == resource.RLIM_INFINITY else min(limit, soft // 4)
    return max(16, allowed // sharing)
