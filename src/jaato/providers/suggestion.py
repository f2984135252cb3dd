"""What somebody may have meant by the name of a model that nobody knows."""

from __future__ import annotations

import anyio

from jaato.abc.provider import Provider
from jaato.errors import ConfigError, ProviderError

PATIENCE_S = 3.0


async def suggestion(provider: Provider, model: str) -> str:
    """A question that names up to three offered models like this one; empty without any, or without a list in time."""
    from difflib import get_close_matches

    names: list[str] = []
    with anyio.move_on_after(PATIENCE_S):
        try:
            names = [info.id for info in await provider.models()]
        except (ProviderError, ConfigError):
            pass  # the unknown model is the error; that nothing is known of others is none
    near = [name for name in get_close_matches(model, names, n=3, cutoff=0.5) if name != model]
    return f"Did you mean {' or '.join(near)}?" if near else ""
