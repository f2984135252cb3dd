"""A GC strategy: old tool results are shortened, everything said stays."""

from __future__ import annotations

from typing import Any

import msgspec

from jaato.abc.compactor import GCConfig, GCResult
from jaato.protocol.messages import Message, Text, ToolResult

KEPT_CHARS = 80


class EbbStrategy:
    """Cuts the results of all but the newest turns to one line."""

    name = "gc_ebb"

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Nothing is to be set."""

    def shutdown(self) -> None:
        """Nothing is open."""

    def should_collect(self, context_usage: dict[str, Any], config: GCConfig) -> tuple[bool, str]:
        """When the context is as full as the user allows."""
        percent = context_usage["percent_used"]
        return percent >= config.threshold_percent, f"the water stands at {percent:.0f} %"

    def collect(
        self, history: list[Message], context_usage: dict[str, Any], config: GCConfig, reason: str
    ) -> tuple[list[Message], GCResult]:
        """The same messages in the same order; the results among the older ones are cut."""
        turns = [at for at, message in enumerate(history) if message.role == "user"]
        recent = turns[-1] if turns else 0
        left = [shortened(message) if at < recent else message for at, message in enumerate(history)]
        cut = sum(was is not now for was, now in zip(history, left, strict=True))
        return left, GCResult(items_collected=cut, plugin_name=self.name, trigger_reason=reason)


def shortened(message: Message) -> Message:
    """A message whose results are one line each."""
    parts = [short(part) if isinstance(part, ToolResult) else part for part in message.parts]
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def short(result: ToolResult) -> ToolResult:
    """A result cut to its beginning."""
    text = " ".join(part.text for part in result.content if isinstance(part, Text))
    if len(text) <= KEPT_CHARS:
        return result
    return msgspec.structs.replace(
        result, content=[Text(f"{text[:KEPT_CHARS]} … (cut to make room)")], structured=None
    )
