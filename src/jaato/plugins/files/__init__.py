"""Files: read, write, edit, move, restore; beneath the workspace, atomically, with backups."""

from jaato.plugins.files.plugin import FilesPlugin

__all__ = ["FilesPlugin"]
