"""The documented home of `PermissionPlugin`, its policy and its channels."""

from __future__ import annotations

from jaato.abc.asker import Asker as PermissionChannel
from jaato.plugins.permission import ConsoleChannel, PermissionPlugin, QueueChannel
from jaato.tools.permissions.gate import Policy as PermissionPolicy

__all__ = ["ConsoleChannel", "PermissionChannel", "PermissionPlugin", "PermissionPolicy", "QueueChannel"]
