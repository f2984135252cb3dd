"""The documented home of waypoints: `WaypointManager` and `BackupManager`."""

from __future__ import annotations

from jaato.plugins.waypoint.restore import WaypointManager
from jaato.runtime.plugins.standalone import WaypointPlugin
from jaato.tools.filesystem.backups import Backups as BackupManager

__all__ = ["BackupManager", "WaypointManager", "WaypointPlugin"]
