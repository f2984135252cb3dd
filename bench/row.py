"""One measured figure."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A figure: its name, value and unit, the bound it must keep if any, and what it is held against."""

    name: str
    value: float
    unit: str
    bound: float | None
    against: str
