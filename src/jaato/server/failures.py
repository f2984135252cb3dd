"""How often an address has failed to come in, so that guessing is slow; nobody else waits for it."""

from __future__ import annotations

import ipaddress
import time
from functools import lru_cache

import anyio

from jaato.server.asgi import Refused

FREE = 10
"""Failures of one address that are answered at once; after them an answer takes its time."""
MOST = 100
"""Failures of one address in `FORGET_S` after which it is told to come later."""
FORGET_S = 60.0
DELAY_S = 0.25
ADDRESSES = 10_000


class Failures:
    """Counts by address; the addresses that failed longest ago are forgotten first."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, float]] = {}

    async def add(self, peer: str) -> None:
        """One more; returns when it may be answered. Raises `Refused` when there are too many."""
        count = self._count(network_of(peer))
        if count > MOST:
            raise Refused(
                429, "Too many wrong tokens; come back later.", **{"retry-after": str(int(FORGET_S))}
            )
        if count > FREE:
            await anyio.sleep(DELAY_S)

    def many(self, peer: str) -> bool:
        """One more; whether there are too many."""
        return self._count(network_of(peer)) > MOST

    def _count(self, key: str) -> int:
        now = time.monotonic()
        count, since = self._counts.pop(key, (0, now))
        if now - since > FORGET_S:
            count, since = 0, now
        self._counts[key] = (count + 1, since)
        while len(self._counts) > ADDRESSES:
            del self._counts[next(iter(self._counts))]
        return count + 1


@lru_cache(4_096)
def network_of(peer: str) -> str:
    """What counts as one address: an IPv4 address, or the 64 bits of an IPv6 one that a provider gives out."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped is not None:
        return peer
    return str(ipaddress.ip_network((address, 64), strict=False))
