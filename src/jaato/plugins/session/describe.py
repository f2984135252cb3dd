"""The word to the model that a session has no description yet."""

from __future__ import annotations

from jaato.abc.plugin import PromptEnrichmentResult

UNDESCRIBED = (
    "[This session has no description yet. Beside your answer, describe it in one line with session_describe, "
    "so that the user finds it among others.]"
)


def asked_for_description(
    prompt: str, turns: int, description: str | None, after_turns: int
) -> PromptEnrichmentResult:
    """The prompt, with that word when there is no description after exactly so many turns; 0 turns: never."""
    if not after_turns or turns != after_turns or description or prompt.endswith(UNDESCRIBED):
        return PromptEnrichmentResult(prompt)
    return PromptEnrichmentResult(f"{prompt}\n\n{UNDESCRIBED}", {"asked_for": "description"})
