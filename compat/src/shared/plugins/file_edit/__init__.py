"""The documented home of `FileEditPlugin` and of the backups it keeps."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import FileEditPlugin
from jaato.tools.filesystem.backups import Backups as BackupManager

__all__ = ["BackupManager", "FileEditPlugin"]
