"""The documented home of `ModelProviderPlugin`."""

from __future__ import annotations

from jaato.runtime.provider_plugin import ModelProviderPlugin
from jaato.runtime.types import ProviderConfig

__all__ = ["ModelProviderPlugin", "ProviderConfig"]
