"""The home of the plugin `introspection`."""

from __future__ import annotations

from jaato.plugins.introspection import IntrospectionPlugin

__all__ = ["IntrospectionPlugin"]
