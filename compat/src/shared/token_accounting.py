"""The documented home of `TokenLedger`."""

from __future__ import annotations

from jaato.tools.ledger import TokenLedger

__all__ = ["TokenLedger"]
