"""The documented home of background tasks."""

from __future__ import annotations

from jaato.abc.plugin import BackgroundCapable, TaskHandle, TaskResult, TaskStatus
from jaato.runtime.plugins.standalone import BackgroundPlugin
from jaato.tools.task_records import BackgroundCapableMixin

__all__ = [
    "BackgroundCapable",
    "BackgroundCapableMixin",
    "BackgroundPlugin",
    "TaskHandle",
    "TaskResult",
    "TaskStatus",
]
