"""The documented protocol of plugins whose tools may run in the background, and its records."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class TaskStatus(StrEnum):
    """Where a background task stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """A background task that was started; `created_at` is ISO 8601 UTC."""

    task_id: str
    plugin_name: str
    tool_name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of a task so far."""

    task_id: str
    status: TaskStatus
    result: Any = None
    error: str | None = None


@runtime_checkable
class BackgroundCapable(Protocol):
    """A plugin whose tools can run in the background; thresholds in seconds, None for never by itself."""

    def supports_background(self, tool_name: str) -> bool: ...

    def get_auto_background_threshold(self, tool_name: str) -> float | None: ...

    def start_background(self, tool_name: str, args: dict[str, Any]) -> TaskHandle: ...

    def register_running_task(
        self, future: Future[Any], tool_name: str, args: dict[str, Any]
    ) -> TaskHandle: ...

    def get_status(self, task_id: str) -> TaskStatus: ...

    def get_result(self, task_id: str) -> TaskResult: ...

    def cancel(self, task_id: str) -> bool: ...
