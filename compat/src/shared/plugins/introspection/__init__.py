"""The home of the plugin `introspection`."""

from __future__ import annotations

from jaato.plugins.introspection.plugin import IntrospectionPlugin

__all__ = ["IntrospectionPlugin"]
