"""The documented home of `FileSessionPlugin`."""

from __future__ import annotations

from jaato.plugins.session import FileSessionPlugin, create_plugin

__all__ = ["FileSessionPlugin", "create_plugin"]
