"""The documented home of `BackgroundCapable` and its records."""

from __future__ import annotations

from jaato.abc.plugin import BackgroundCapable, TaskHandle, TaskResult, TaskStatus

__all__ = ["BackgroundCapable", "TaskHandle", "TaskResult", "TaskStatus"]
