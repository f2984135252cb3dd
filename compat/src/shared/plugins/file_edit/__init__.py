"""The documented home of `FileEditPlugin`."""

from __future__ import annotations

from jaato.plugins.files.plugin import FilesPlugin as FileEditPlugin

__all__ = ["FileEditPlugin"]
