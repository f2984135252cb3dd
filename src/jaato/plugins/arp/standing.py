"""How a registry stands: whether it answers, how long it is left alone, what was said of it."""

from __future__ import annotations

from collections.abc import Callable

from jaato.errors import JaatoError
from jaato.log import logger
from jaato.plugins.arp.faults import RegistryFault

LOG = logger("registries")
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 300.0
SHORT_S = 1.5
"""A wait no longer than this is not kept to."""
MAX_TOLD = 200


class Standing:
    """Of one registry, by the name the user has for it; `failure` says why it is left alone."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self.failure = ""
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0
        self._told: set[str] = set()

    @property
    def wait_s(self) -> float:
        """How long it is left alone; 0 when it can be asked."""
        return max(0.0, self._not_before - self._clock())

    def refuse_left_alone(self) -> None:
        """Raise `RegistryFault` while the registry is left alone because it fails."""
        if self.wait_s > SHORT_S:
            raise RegistryFault(
                f"{self.failure} It has failed {self._failures} times in a row and is asked again in "
                f"{self.wait_s:.0f} s."
            )

    def answered(self) -> None:
        """It has answered."""
        self.failure, self._failures, self._not_before = "", 0, 0.0

    def failed(self, error: JaatoError) -> None:
        """Leave the registry alone for a while, each time longer."""
        self._failures += 1
        wait_s = min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 20))
        self.failure, self._not_before = str(error), self._clock() + wait_s
        self.tell(self.failure)

    def tell(self, what: str) -> None:
        """Say in the log what is wrong, once."""
        if what not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(what)
            LOG.warning("Registry '%s': %s", self.name, what)
