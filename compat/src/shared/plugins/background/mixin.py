"""The documented home of `BackgroundCapableMixin`."""

from __future__ import annotations

from jaato.tools.background import BackgroundCapableMixin

__all__ = ["BackgroundCapableMixin"]
