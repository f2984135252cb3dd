"""The connections of a server, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaato.server.registry.door import RegistryDoor
from jaato.server.registry.eager import Eager
from jaato.server.registry.guards import Guard

if TYPE_CHECKING:
    from jaato.server.registry.line import Line

READ_BYTES = 65_536


class Lines:
    """All connections, at `most` so many: the one that has been idle longest makes room for another. What they say goes to
    `place`, and is taken out before anything else is read."""

    def __init__(self, door: RegistryDoor, guard: Guard, most: int) -> None:
        self.door = door
        self.guard = guard
        self.eager = Eager()
        self.most = most
        self.place = memoryview(bytearray(READ_BYTES))
        self.open: dict[Line, None] = {}
        """The one first that has been idle longest."""

    def add(self, line: Line) -> None:
        """There is another."""
        longest = next((one for one in self.open if one.idle), None)
        if len(self.open) >= self.most and longest is not None:
            del self.open[longest]
            longest.abort()
        self.open[line] = None

    def used(self, line: Line) -> None:
        """It is the last that was idle."""
        self.open[line] = self.open.pop(line, None)
