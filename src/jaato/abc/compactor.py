"""The interface of a GC plugin: when a context is compacted, and what of the history remains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaato.errors import ConfigError
from jaato.protocol.messages import Message
from jaato.settings import environment, parse_value

DEFAULT_THRESHOLD_PERCENT = 80.0
THRESHOLD_VARIABLE = "JAATO_GC_THRESHOLD"


def threshold() -> float:
    """The threshold of `JAATO_GC_THRESHOLD`, else 80. Raises `ConfigError` for what is no number."""
    text = environment().get(THRESHOLD_VARIABLE, "")
    return parse_value("number", text, THRESHOLD_VARIABLE) if text else DEFAULT_THRESHOLD_PERCENT


@dataclass(frozen=True, slots=True)
class GCConfig:
    """When to make room, and what stays. `threshold_percent` is of the model's context, more than 0, at most 100.

    Raises `ConfigError` for values that make no sense.
    """

    threshold_percent: float = field(default_factory=threshold)
    preserve_recent_turns: int = 5
    auto_trigger: bool = True
    """Ask the strategy before each model call; without it only `compact()` does."""
    instructions: str = ""
    """What the user wants of the summary, in the words of `/compact`."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold_percent <= 100:
            raise ConfigError(
                f"A GC threshold of {self.threshold_percent} percent makes no sense; give more than 0, at most 100."
            )
        if self.preserve_recent_turns < 0:
            raise ConfigError("preserve_recent_turns is 0 or more.")


@dataclass(frozen=True, slots=True)
class GCResult:
    """What a strategy says of its work; what was really freed is measured by the session itself."""

    success: bool = True
    items_collected: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    plugin_name: str = ""
    trigger_reason: str = ""
    notification: str | None = None
    error: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class GCPlugin(Protocol):
    """The documented shape of a strategy. `context_usage` has model, context_limit, total_tokens, percent_used, turns,
    `fixed_tokens` (system prompt and tools, of the total), and `room_chars`: how long the history may be below the threshold.

    `collect` gives the history that remains: messages it was given, in their order, some left out, changed (same id)
    or replaced by new ones. It works in a thread and on copies.
    """

    @property
    def name(self) -> str: ...

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def should_collect(self, context_usage: dict[str, Any], config: GCConfig) -> tuple[bool, str]: ...

    def collect(
        self, history: list[Message], context_usage: dict[str, Any], config: GCConfig, reason: str
    ) -> tuple[list[Message], GCResult]: ...


@runtime_checkable
class SummarizingGCPlugin(GCPlugin, Protocol):
    """A strategy that wants words of the model before it collects. Its methods work in a thread and on copies; the model
    is asked by the session, which counts the tokens and can be stopped meanwhile."""

    def question(self, history: list[Message], context_usage: dict[str, Any], config: GCConfig) -> str | None:
        """What the model is asked, without tools and without the conversation; None: nothing, `collect` does it alone."""
        ...

    def collect_with(
        self,
        answer: str,
        history: list[Message],
        context_usage: dict[str, Any],
        config: GCConfig,
        reason: str,
    ) -> tuple[list[Message], GCResult]:
        """As `collect`, with what the model answered. Where it gave none, `collect` is called instead."""
        ...
