"""The loggers of jaato; quiet unless the program listens."""

from __future__ import annotations

import logging


def logger(name: str) -> logging.Logger:
    """The logger `jaato.NAME`."""
    return logging.getLogger(f"jaato.{name}")


logging.getLogger("jaato").addHandler(logging.NullHandler())
