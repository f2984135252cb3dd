"""One measured figure."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A figure: what was measured, its value and unit, the bound it must keep if there is one, and what it was held against."""

    name: str
    value: float
    unit: str
    bound: float | None
    against: str
