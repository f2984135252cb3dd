"""The documented home of what strategies share: turns, and calls with their results."""

from __future__ import annotations

from jaato.agent.compaction.history import drop_unpaired, is_turn_start, split_history

__all__ = ["drop_unpaired", "is_turn_start", "split_history"]
