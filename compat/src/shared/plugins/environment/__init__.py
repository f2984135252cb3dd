"""The home of the plugin `environment`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import EnvironmentPlugin

__all__ = ["EnvironmentPlugin"]
