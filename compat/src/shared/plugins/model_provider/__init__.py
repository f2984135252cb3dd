"""The documented home of model providers: the interface, and loading by name."""

from __future__ import annotations

from jaato.runtime.provider_plugin import ModelProviderPlugin
from jaato.runtime.providers import discover_providers, load_provider
from jaato.runtime.types import ProviderConfig

__all__ = ["ModelProviderPlugin", "ProviderConfig", "discover_providers", "load_provider"]
