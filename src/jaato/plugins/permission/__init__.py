"""Permission for every call: a policy file, and a channel to someone who can answer."""

from __future__ import annotations

from jaato.plugins.permission.channels import ConsoleChannel, Pending, QueueChannel
from jaato.plugins.permission.plugin import PermissionPlugin

__all__ = ["ConsoleChannel", "Pending", "PermissionPlugin", "QueueChannel"]
