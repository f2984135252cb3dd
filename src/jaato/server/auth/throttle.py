"""Rate limit of wrong credentials by address. Requests with valid credentials, or none, are never throttled."""

from __future__ import annotations

import ipaddress
import time
from functools import lru_cache

import anyio

from jaato.server.http.asgi import Refused

PROMPT = 10
"""Wrong credentials of one address that are answered without delay."""
MAX_PENDING = 100
"""The size of an address's bucket; attempts beyond it are refused with 429."""
LEAK_PER_S = 20.0
"""How fast a bucket leaks."""
DELAY_S = 0.25
MAX_DELAYED = 32
"""Answers delayed at a time over all addresses, for each occupies a connection."""
MAX_ADDRESSES = 10_000
TOO_MANY = "Too many wrong tokens; try again in a second."


class Throttle:
    """A leaky bucket for each address, in bounded memory: the address whose last failure is oldest is evicted first."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}
        self._delayed = 0

    async def wait(self, peer: str) -> None:
        """Count a wrong credential and delay its answer. Raises `Refused` with 429 for too many."""
        level = self._add(network_of(peer))
        if level <= PROMPT:
            return
        if level > MAX_PENDING or self._delayed >= MAX_DELAYED:
            raise too_many()
        self._delayed += 1
        try:
            await anyio.sleep(DELAY_S)
        finally:
            self._delayed -= 1

    def check(self, peer: str, words: str = TOO_MANY) -> None:
        """Count a wrong credential without a delay. Raises `Refused` with 429 for too many."""
        level = self._add(network_of(peer))
        if level > MAX_PENDING:
            raise too_many(words)

    def _add(self, network: str) -> float:
        """The level of an address after one more attempt; refused attempts do not raise it."""
        now = time.monotonic()
        level, since = self._buckets.pop(network, (0.0, now))
        level = max(0.0, level - (now - since) * LEAK_PER_S) + 1
        self._buckets[network] = (min(level, MAX_PENDING), now)
        while len(self._buckets) > MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        return level


def too_many(words: str = TOO_MANY) -> Refused:
    """The refusal, with `Retry-After`."""
    return Refused(429, words, **{"retry-after": "1"})


@lru_cache(4_096)
def network_of(peer: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped is not None:
        return peer
    return str(ipaddress.ip_network((address, 64), strict=False))
