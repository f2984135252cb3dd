"""Reading little at once, so that what comes in pieces of a few bytes, by the ten thousand, leaves others their turn."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

PLACE = memoryview(bytearray(8_192))
"""Where everybody's bytes go: they are taken out before anything else is read."""
STRANGERS = PLACE[:1_024]


class LittleAtOnce(asyncio.BufferedProtocol):
    """A protocol whose `data_received` is given no more at once than has room there; `waits_since` is None once it is
    known what the client wants, and more is worth reading."""

    waits_since: float | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return PLACE if self.waits_since is None else STRANGERS

    def buffer_updated(self, nbytes: int) -> None:
        """Some have come."""
        self.data_received(bytes(PLACE[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Take them."""
