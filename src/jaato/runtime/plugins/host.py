"""What a native plugin is told at its construction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class HostServices(Protocol):
    """What all plugins of one registry may ask for."""

    workspace: Path
    services: dict[str, Any]


class PluginHost:
    """What a native plugin is told at its construction."""

    def __init__(self, services: HostServices, config: Mapping[str, Any]) -> None:
        self._services = services
        self.config = config

    @property
    def workspace(self) -> Path:
        """The directory the agent works in."""
        return self._services.workspace

    def service(self, name: str) -> Any:
        """Something of the runtime by name; raises KeyError."""
        return self._services.services[name]
