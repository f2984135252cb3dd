"""The documented home of model providers: the interface, and loading by name."""

from __future__ import annotations

from jaato.runtime.embedding.providers import ModelProviderPlugin, discover_providers, load_provider
from jaato.runtime.embedding.types import ProviderConfig

__all__ = ["ModelProviderPlugin", "ProviderConfig", "discover_providers", "load_provider"]
