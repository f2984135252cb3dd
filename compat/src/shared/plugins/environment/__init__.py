"""The home of the plugin `environment`."""

from __future__ import annotations

from jaato.plugins.environment import EnvironmentPlugin

__all__ = ["EnvironmentPlugin"]
