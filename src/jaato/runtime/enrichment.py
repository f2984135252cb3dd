"""What plugins add to a prompt before the model reads it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from jaato.abc.plugin import PromptEnrichmentResult
from jaato.errors import PluginError
from jaato.log import logger
from jaato.runtime.adapt import Toolset
from jaato.runtime.bounded import within
from jaato.runtime.discovery import BROKEN

LOG = logger("registry")
WITHIN_S = 10.0
MOST_CHARS = 2_000_000
"""A prompt may become as long as this, or stay as long as it was."""


class SlowEnrichment(PluginError):
    """A plugin of others has not answered in its time."""


def enrichers(toolsets: Iterable[Toolset]) -> list[Toolset]:
    """Those that subscribe, in the order they are asked."""
    return sorted((t for t in toolsets if t.enrich is not None), key=lambda t: t.enrichment.priority)


def wanted(toolset: Toolset, prompt: str, workspace: Path) -> bool:
    """Whether the plugin has something to do with this prompt; decided without asking it."""
    when = toolset.enrichment
    if not when.pattern and not when.present:
        return True
    if when.pattern and searcher(when.pattern).search(prompt):
        return True
    return any(os.path.exists(f"{workspace}/{name}") for name in when.present)


@functools.cache
def searcher(pattern: str) -> re.Pattern[str]:
    """The pattern, made ready once."""
    return re.compile(pattern)


def asked(toolset: Toolset, prompt: str) -> tuple[str, dict[str, Any]]:
    """The prompt as one plugin would have it, and what it notes; of a failing one as it was."""
    enrich = toolset.enrich
    if enrich is None:
        return prompt, {}  # it was left out while others were asked
    try:
        ask = functools.partial(enrich, prompt)
        result = within(WITHIN_S, ask, "", late=SlowEnrichment) if toolset.foreign else ask()
        text, notes = result.prompt, dict(result.metadata)
        if not isinstance(text, str):
            raise PluginError(f"enrich_prompt() gave a prompt that is a {type(text).__name__}, not text")
        if len(text) > max(MOST_CHARS, len(prompt)):
            raise ValueError(f"it would make the prompt {len(text)} characters long")
    except SlowEnrichment as error:
        toolset.enrich = None
        return passed_over(toolset, prompt, f"{error}; it is not asked again")
    except BROKEN as error:  # the user's words must reach the model whatever a plugin does
        return passed_over(toolset, prompt, str(error) or type(error).__name__)
    return text, notes


def passed_over(toolset: Toolset, prompt: str, problem: str) -> tuple[str, dict[str, Any]]:
    """The prompt as it was, and why."""
    LOG.warning("Plugin '%s' could not enrich the prompt: %s", toolset.name, problem)
    return prompt, {"error": problem}


def enriched(prompt: str, toolsets: Iterable[Toolset], workspace: Path) -> PromptEnrichmentResult:
    """The prompt after each of them has seen what the one before made of it; a failing one is passed over."""
    metadata: dict[str, Any] = {}
    for toolset in toolsets:
        if wanted(toolset, prompt, workspace):
            prompt, metadata[toolset.name] = asked(toolset, prompt)
    return PromptEnrichmentResult(prompt, metadata)


async def enriched_apart(prompt: str, toolsets: Iterable[Toolset], workspace: Path) -> str:
    """The same off the loop; one that takes longer than `WITHIN_S` is passed over too."""
    for toolset in toolsets:
        if not wanted(toolset, prompt, workspace):
            continue
        if toolset.enrichment.instant and not toolset.foreign:
            prompt, _ = asked(toolset, prompt)
            continue
        with anyio.move_on_after(WITHIN_S + 1) as waited:
            prompt, _ = await anyio.to_thread.run_sync(asked, toolset, prompt, abandon_on_cancel=True)
        if waited.cancelled_caught:
            passed_over(toolset, prompt, f"it took longer than {WITHIN_S:g} s")
    return prompt
