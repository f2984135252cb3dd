"""Tools, a command and prompt enrichment about the tide."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jaato import Host, Plugin, PromptEnrichmentResult, UserCommand, tool

PERIOD_HOURS = 12.42


class TidePlugin(Plugin):
    """Records tides in the workspace and reckons the next ones."""

    name = "tide"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._file = host.workspace / "tides.json"

    def _recorded(self) -> dict[str, float]:
        return dict(json.loads(self._file.read_text())) if self._file.exists() else {}

    @tool(category="tide", access="read", examples=({"harbour": "Husum", "hour": 30.0},))
    def tide_at(self, harbour: str, hour: float) -> dict[str, Any]:
        """Say whether the water rises or falls at a harbour, so many hours after midnight. Needs a recorded high
        water; says what to do when there is none."""
        high = self._recorded().get(harbour)
        if high is None:
            raise LookupError(f"No high water is recorded for {harbour}; call record_tide first.")
        phase = (hour - high) % PERIOD_HOURS
        return {
            "harbour": harbour,
            "water": "falls" if phase < PERIOD_HOURS / 2 else "rises",
            "phase_h": round(phase, 2),
        }

    @tool(category="tide", access="write")
    def record_tide(self, harbour: str, hour: float) -> str:
        """Record the hour of a high water at a harbour. Use it when the user or a table tells one."""
        self._file.write_text(json.dumps({**self._recorded(), harbour: hour}, sort_keys=True))
        return f"noted for {harbour}"

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`/tides [HARBOUR]`: what is recorded; the model reads it too."""
        return {UserCommand("tides", "Show the recorded high waters.", share_with_model=True): self._show}

    def _show(self, harbour: str) -> str:
        rows = [f"{name}: {hour} h" for name, hour in self._recorded().items() if harbour in ("", name)]
        return "\n".join(rows) or "nothing is recorded"

    def subscribes_to_prompt_enrichment(self) -> bool:
        """Prompts pass through `enrich_prompt`."""
        return True

    def get_enrichment_priority(self) -> int:
        """After references (20), before memory (80)."""
        return 70

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """A prompt that speaks of the tide is told which harbours are known."""
        known = sorted(self._recorded())
        if "tide" not in prompt.lower() or not known:
            return PromptEnrichmentResult(prompt)
        return PromptEnrichmentResult(
            f"{prompt}\n\n(High waters are recorded for: {', '.join(known)}.)", {"known": known}
        )
