"""The loggers of jaato; quiet unless the program listens, and never with a secret in what they say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from weakref import WeakMethod

Mask = Callable[[str], str]


class Masked(logging.Filter):
    """Masks what is logged with everything that any open session knows to be secret."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: list[WeakMethod[Mask]] = []

    def learn(self, mask: Mask) -> None:
        """Use the bound method `mask` as long as its object lives."""
        self._masks = [*(known for known in self._masks if known() is not None), WeakMethod(mask)]

    def filter(self, record: logging.LogRecord) -> bool:
        """Change what a record says; every record passes."""
        masks = [mask for known in self._masks if (mask := known()) is not None]
        if not masks:
            return True
        message = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        shown, trace = message, record.exc_text
        for mask in masks:
            shown, trace = mask(shown), trace and mask(trace)
        if shown != message:
            record.msg, record.args = shown, ()
        if trace != record.exc_text:
            record.exc_text, record.exc_info = trace, None
        return True


MASKED = Masked()


def logger(name: str) -> logging.Logger:
    """The logger `jaato.NAME`."""
    made = logging.getLogger(f"jaato.{name}")
    made.addFilter(MASKED)
    return made


logging.getLogger("jaato").addHandler(logging.NullHandler())
