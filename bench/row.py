"""One measured figure."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A figure: its value, its bound (None: no promise) and what it was measured against."""

    name: str
    value: float
    unit: str
    bound: float | None
    against: str
