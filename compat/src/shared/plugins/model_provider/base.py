"""The documented home of `ModelProviderPlugin`."""

from __future__ import annotations

from jaato.runtime.embedding.providers import ModelProviderPlugin
from jaato.runtime.embedding.types import ProviderConfig

__all__ = ["ModelProviderPlugin", "ProviderConfig"]
