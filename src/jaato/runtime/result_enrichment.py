"""What plugins add to the result of a call before the model reads it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.to_thread

from jaato.log import logger
from jaato.runtime.adapt import Toolset
from jaato.runtime.discovery import BROKEN
from jaato.tools.call import Call

LOG = logger("registry")
WITHIN_S = 5.0


def result_enrichers(toolsets: Iterable[Toolset], name: str) -> list[Toolset]:
    """Those that see the results of this tool."""
    return [
        toolset
        for toolset in toolsets
        if toolset.enriches_results and (name in toolset.enriches_results or "*" in toolset.enriches_results)
    ]


async def enriched_result(call: Call, value: Any, toolsets: Iterable[Toolset]) -> Any:
    """The value after each of them has seen what the one before made of it; a failing or late one is passed over."""
    for toolset in toolsets:
        with anyio.move_on_after(WITHIN_S) as waited:
            value = await asked(toolset, call, value)
        if waited.cancelled_caught:
            LOG.warning("Plugin '%s' took too long over the result of %s", toolset.name, call.name)
    return value


async def asked(toolset: Toolset, call: Call, value: Any) -> Any:
    """The value as one plugin would have it; a synchronous one is asked off the loop."""
    enrich = toolset.enrich_result
    assert enrich is not None
    try:
        if inspect.iscoroutinefunction(enrich):
            return await enrich(call, value)
        return await anyio.to_thread.run_sync(enrich, call, value, abandon_on_cancel=True)
    except BROKEN as error:  # the result must reach the model whatever a plugin does
        LOG.warning("Plugin '%s' could not enrich the result of %s: %s", toolset.name, call.name, error)
        return value


def enriched_at_once(call: Call, value: Any, toolsets: Iterable[Toolset]) -> Any:
    """The same without a loop; plugins that are asynchronous are left out."""
    for toolset in toolsets:
        enrich = toolset.enrich_result
        if enrich is None or inspect.iscoroutinefunction(enrich):
            continue
        try:
            value = enrich(call, value)
        except BROKEN as error:
            LOG.warning("Plugin '%s' could not enrich the result of %s: %s", toolset.name, call.name, error)
    return value
