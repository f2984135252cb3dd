"""What plugins add to a prompt before the model reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import anyio

from jaato.abc.plugin import PromptEnrichmentResult
from jaato.errors import PluginError
from jaato.log import logger
from jaato.runtime.adapt import Toolset
from jaato.runtime.bounded import within
from jaato.tools.background import start_thread

LOG = logger("registry")
ENRICHING_S = 10.0
"""How long somebody else's plugin may take over one prompt."""
MAX_ADDED_CHARS = 200_000


class SlowEnrichment(PluginError):
    """A plugin has not answered in its time."""


def enrichers(toolsets: Iterable[Toolset]) -> list[Toolset]:
    """Those that subscribe, in the order they are asked."""
    return sorted((t for t in toolsets if t.enrich is not None), key=lambda t: t.priority)


def enriched(prompt: str, toolsets: Iterable[Toolset]) -> PromptEnrichmentResult:
    """The prompt after each of them has seen what the one before made of it; a failing one is passed over, and one
    that hangs is not asked again."""
    metadata: dict[str, Any] = {}
    for toolset in toolsets:
        try:
            prompt, metadata[toolset.name] = ask(toolset, prompt)
        except SlowEnrichment as error:
            toolset.enrich = None
            LOG.warning("Plugin '%s' is not asked to enrich prompts any more: %s", toolset.name, error)
            metadata[toolset.name] = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 the user's words must reach the model whatever a plugin does
            LOG.warning("Plugin '%s' could not enrich the prompt: %s", toolset.name, error)
            metadata[toolset.name] = {"error": str(error)}
    return PromptEnrichmentResult(prompt, metadata)


def ask(toolset: Toolset, prompt: str) -> tuple[str, dict[str, Any]]:
    """What one plugin makes of a prompt. Raises what it raises, and `PluginError` for what is no prompt."""
    enrich = toolset.enrich
    assert enrich is not None
    if toolset.foreign:
        result = within(
            ENRICHING_S, lambda: enrich(prompt), f"The plugin {toolset.name!r}", late=SlowEnrichment
        )
    else:
        result = enrich(prompt)
    text, metadata = result.prompt, dict(result.metadata)
    if not isinstance(text, str):
        raise PluginError(f"enrich_prompt() gave a prompt that is a {type(text).__name__}, not text")
    if len(text) > len(prompt) + MAX_ADDED_CHARS:
        raise PluginError(f"enrich_prompt() added more than {MAX_ADDED_CHARS:,} characters")
    return text, metadata


class Enricher:
    """Enriches the messages of one runtime, in the order they came; other people's code works off the loop."""

    def __init__(self, subscribers: Callable[[], list[Toolset]]) -> None:
        self._subscribers = subscribers
        self._turn: anyio.Lock | None = None

    async def __call__(self, text: str) -> str:
        """The text as the model is to read it."""
        asked = self._subscribers()
        if not any(toolset.foreign for toolset in asked):
            return enriched(text, asked).prompt if asked else text
        self._turn = self._turn or anyio.Lock(fast_acquire=True)
        async with self._turn:
            result: PromptEnrichmentResult = await asyncio.wrap_future(
                start_thread(lambda: enriched(text, asked))
            )
        return result.prompt
