"""A documented plugin that takes its time, and an executor with it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from jaato.abc.plugin import ToolSchema, UserCommand
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.task_records import BackgroundCapableMixin


class SlowPlugin(BackgroundCapableMixin):
    """A documented plugin whose tool takes as long as it is told."""

    name = "slow"
    auto_background_s = {"wait": 0.05}
    runs = 0

    def __init__(self) -> None:
        self.go = threading.Event()
        """Ends each wait."""

    def get_tool_schemas(self) -> list[ToolSchema]:
        return [ToolSchema("wait", "Wait.", {"type": "object", "properties": {"s": {"type": "number"}}})]

    def get_executors(self) -> dict[str, Any]:
        return {"wait": self.wait}

    def wait(self, args: dict[str, Any]) -> dict[str, Any]:
        self.runs += 1
        wait_s = args.get("s", 0)
        if wait_s < 0:
            raise ValueError("no time is negative")
        self.go.wait(wait_s)
        return {"waited": wait_s}

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None: ...

    def get_system_instructions(self) -> str | None:
        return None

    def get_auto_approved_tools(self) -> list[str]:
        return []

    def get_user_commands(self) -> list[UserCommand]:
        return []


def slow_executor(
    tmp_path: Path, threshold_s: float = 0.05, **options: Any
) -> tuple[ToolExecutor, SlowPlugin]:
    """An executor over a registry that exposes one, and that one."""
    registry = PluginRegistry(workspace=tmp_path)
    plugin = SlowPlugin()
    plugin.auto_background_s = {"wait": threshold_s}
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor(**options)
    executor.set_registry(registry)
    return executor, plugin
