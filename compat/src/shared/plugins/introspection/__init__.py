"""The home of the plugin `introspection`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import IntrospectionPlugin

__all__ = ["IntrospectionPlugin"]
