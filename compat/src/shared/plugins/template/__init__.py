"""The documented home of `TemplatePlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import TemplatePlugin

__all__ = ["TemplatePlugin"]
