"""The documented home of `PermissionPlugin`."""

from __future__ import annotations

from jaato.plugins.permission import ConsoleChannel, PermissionPlugin, QueueChannel

__all__ = ["ConsoleChannel", "PermissionPlugin", "QueueChannel"]
