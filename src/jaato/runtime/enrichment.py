"""What plugins add to a prompt before the model reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaato.abc.plugin import PromptEnrichmentResult
from jaato.log import logger
from jaato.runtime.adapt import Toolset

LOG = logger("registry")


def enrichers(toolsets: Iterable[Toolset]) -> list[Toolset]:
    """Those that subscribe, in the order they are asked."""
    return sorted((t for t in toolsets if t.enrich is not None), key=lambda t: t.priority)


def enriched(prompt: str, toolsets: Iterable[Toolset]) -> PromptEnrichmentResult:
    """The prompt after each of them has seen what the one before made of it; a failing one is passed over."""
    metadata: dict[str, Any] = {}
    for toolset in toolsets:
        assert toolset.enrich is not None
        try:
            result = toolset.enrich(prompt)
            prompt, metadata[toolset.name] = str(result.prompt), dict(result.metadata)
        except Exception as error:  # noqa: BLE001 the user's words must reach the model whatever a plugin does
            LOG.warning("Plugin '%s' could not enrich the prompt: %s", toolset.name, error)
            metadata[toolset.name] = {"error": str(error)}
    return PromptEnrichmentResult(prompt, metadata)
