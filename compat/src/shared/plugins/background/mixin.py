"""The documented home of `BackgroundCapableMixin`."""

from __future__ import annotations

from jaato.tools.task_records import BackgroundCapableMixin

__all__ = ["BackgroundCapableMixin"]
