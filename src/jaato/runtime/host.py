"""What a native plugin is told at its construction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaato.runtime.registry import PluginRegistry


class PluginHost:
    """What a native plugin is told at its construction."""

    def __init__(self, registry: PluginRegistry, config: Mapping[str, Any]) -> None:
        self._registry = registry
        self.config = config

    @property
    def workspace(self) -> Path:
        """The directory the agent works in."""
        return self._registry.workspace

    def service(self, name: str) -> Any:
        """Something of the runtime by name; raises KeyError."""
        return self._registry.services[name]
