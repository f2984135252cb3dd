"""How a session's context is compacted: the strategy, and what compaction uses of the session."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from jaato.abc.compactor import GCConfig, GCPlugin
from jaato.agent.journal import Journal
from jaato.agent.model import ModelClient
from jaato.agent.tool_threads import ToolThreads

ASKING_S, COLLECTING_S, MODEL_S = 5.0, 300.0, 180.0
"""How long a strategy may take to say whether, and to collect; and the model for its words, retries included."""


class CompactionSetup(Struct, frozen=True):
    """A strategy, its configuration, and how long it may take, in seconds."""

    strategy: GCPlugin
    config: GCConfig
    asking_s: float = ASKING_S
    collecting_s: float = COLLECTING_S
    model_s: float = MODEL_S


class CompactionContext(Struct, frozen=True):
    """What compaction uses of its session; `keep` stores bytes and gives their handle."""

    journal: Journal
    model: ModelClient
    threads: ToolThreads
    keep: Callable[[bytes], str]
