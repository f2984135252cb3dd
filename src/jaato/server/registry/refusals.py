"""Requests that were refused or failed, in the server's own log by their ids; only so many lines a second, whoever floods it."""

from __future__ import annotations

import logging
import time

from jaato.log import logger
from jaato.server.registry.answers import Answer
from jaato.server.registry.request import Request

LOG = logger("server.registry")
LINES_A_SECOND = 20
MAX_PATH_CHARS = 200
WATCHED = frozenset((401, 403, 421, 429))
"""What somebody may be trying; the rest is of use only to who looks for it."""


class Refusals:
    """Writes them down."""

    def __init__(self) -> None:
        self._second = 0
        self._count = 0

    def note(self, request: Request, answer: Answer, peer: str) -> None:
        """Write one down."""
        level = logging.WARNING if answer.status in WATCHED else logging.INFO
        if not LOG.isEnabledFor(level):
            return
        second = int(time.monotonic())
        if second != self._second:
            if self._count > LINES_A_SECOND:
                LOG.warning("%d more requests were refused in that second", self._count - LINES_A_SECOND)
            self._second, self._count = second, 0
        self._count += 1
        if self._count > LINES_A_SECOND:
            return
        id_ = next((value for name, value in answer.headers if name == b"x-request-id"), b"-")
        path = request.path.decode("latin-1")[:MAX_PATH_CHARS]
        LOG.log(
            level,
            "Request %s from %s: %d for %s %r",
            id_.decode("ascii", "replace"),
            peer or "this machine",
            answer.status,
            request.method.decode("latin-1"),
            path,
        )


REFUSALS = Refusals()
