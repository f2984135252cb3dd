"""What comes before the blocks of tool-executor, and what must hold after them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.compat.stage import Names, Stage, run, written

from jaato.abc.plugin import TaskHandle, ToolSchema
from jaato.plugins.permission import PermissionPlugin
from jaato.runtime.embedding.executor import ToolExecutor, get_current_tool_output_callback
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.ledger import TokenLedger
from jaato.tools.task_records import BackgroundCapableMixin


def executor(stage: Stage) -> Iterator[Names]:
    """The executor made in the block before; afterwards its two tools are forgotten again."""
    made = ToolExecutor()
    yield {"executor": made}
    assert made.execute("greet", {}) == (
        False,
        {"error": "No executor registered for greet", "code": "tool_unknown"},
    )


def streaming_tools(stage: Stage) -> Iterator[Names]:
    """`greet` as the block before defines it, and two more tools; output comes through the given callback."""
    names: Names = {"executor": ToolExecutor()}
    run("tool_executor_03", names)
    made: ToolExecutor = names["executor"]
    made.register("greet", names["greet"])

    def long_running_task(args: dict[str, Any]) -> dict[str, Any]:
        tell = get_current_tool_output_callback()
        assert tell is not None
        tell("half")
        tell("done")
        return {"input": args["input"]}

    made.register("long_running_task", long_running_task)
    made.register("analyze", lambda args: {"analyzed": args["file"]})
    yield names
    assert (names["success"], names["result"]) == (True, {"analyzed": "data.csv"})
    assert stage.out() == "Hello, Alice!\n[stream] half\n[stream] done\n"


def metadata_tool(stage: Stage) -> Iterator[Names]:
    """`shell_input` is the function the block defines; its metadata arrives merged."""
    made = ToolExecutor()
    names: Names = {"executor": made}
    made.register("shell_input", lambda args: names["_exec_input"](None, args))
    yield names
    assert names["success"] is True
    assert names["result"] == {"output": "...", "continuation_id": "sess_1", "show_output": False}


def permitted_executor(stage: Stage, tool: str, policy: dict[str, Any]) -> ToolExecutor:
    """An executor with one tool and a permission plugin over a policy file."""
    written(stage.path / ".jaato" / "permissions.json", {"version": 1, **policy})
    made = ToolExecutor()
    made.register(tool, lambda args: {"did": tool})
    made.set_permission_plugin(PermissionPlugin(workspace=stage.path, trusted=True))
    return made


def denied_tool(stage: Stage) -> Iterator[Names]:
    """`dangerous_tool` is on the blacklist; the unknown one is refused before anyone is asked."""
    yield {
        "executor": permitted_executor(stage, "dangerous_tool", {"blacklist": {"tools": ["dangerous_tool"]}})
    }
    unknown, denied, method = stage.out().splitlines()
    assert unknown == "No executor registered for unknown_tool"
    assert denied.startswith("Denied: Permission denied for dangerous_tool")
    assert method == "Method: blacklist"


def delete_tool(stage: Stage) -> Iterator[Names]:
    """A tool that must not run: there is no file, so it is asked about, and nobody is at the console."""
    deleted: list[Any] = []
    made = ToolExecutor()
    made.register("deleteFile", deleted.append)
    names: Names = {"executor": made}
    yield names
    assert (names["success"], deleted) == (False, [])
    result = names["result"]
    assert result["_permission"]["decision"] == "denied"
    assert result["_permission"]["method"] == "no_channel"


def write_tool(stage: Stage) -> Iterator[Names]:
    """`writeFile` is on the whitelist."""
    yield {"executor": permitted_executor(stage, "writeFile", {"whitelist": {"tools": ["writeFile"]}})}
    decision, reason, method = stage.out().splitlines()
    assert (decision, method) == ("Decision: allowed", "Method: whitelist")
    assert reason.removeprefix("Reason: ") not in {"", reason}


def slow_command(stage: Stage) -> Iterator[Names]:
    """`npm install` waits for a file; `run` goes on in the background after 0.2 s instead of 10."""
    programs = stage.path.parent / "bin"
    programs.mkdir()
    release = programs / "release"
    npm = programs / "npm"
    npm.write_text(f'#!/bin/sh\nwhile [ ! -e "{release}" ]; do sleep 0.05; done\necho "$1 ended"\n')
    npm.chmod(0o755)
    environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(stage.path)}
    registry = PluginRegistry(workspace=stage.path, services={"environ": environ})
    registry.expose_tool("cli")
    registry.expose_tool("background")
    found = registry.catalog.find("runCommand")
    assert found is not None
    found.tool.background_after_s = 0.2
    ledger = TokenLedger()
    made = ToolExecutor(ledger=ledger)
    made.set_registry(registry)
    names: Names = {"executor": made}
    try:
        yield names
        result, task_id = names["result"], names["task_id"]
        assert {key: result[key] for key in result if key not in {"message", "task_id"}} == {
            "auto_backgrounded": True,
            "plugin_name": "cli",
            "tool_name": "runCommand",
            "threshold_seconds": 0.2,
        }
        message = (
            f"Task exceeded 0.2s threshold, continuing in background. Use task_id '{task_id}' to check status"
        )
        assert stage.out() == f"Task backgrounded: {task_id}\n{message} and output.\n"
        assert made.execute("checkBackgroundTask", {"task_id": task_id})[1]["status"] == "running"
        release.touch()
        task = made.tasks.get(task_id)
        assert task is not None
        assert task.done.wait(60)
        output = made.execute("getBackgroundOutput", {"task_id": task_id})[1]
        assert (output["status"], output["result"]["exit_code"]) == ("completed", 0)
        assert [entry["stage"] for entry in ledger.entries][:2] == ["auto-background", "tool-result"]
    finally:
        release.touch()
        registry.shutdown()


class Builder(BackgroundCapableMixin):
    """A documented plugin that can run in the background, whose first task has the printed id."""

    name = "cli"

    def __init__(self) -> None:
        self.wait = threading.Event()

    def get_tool_schemas(self) -> list[ToolSchema]:
        return [ToolSchema("build", "Build it.", {"type": "object", "properties": {}})]

    def get_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {"build": lambda _args: {"built": self.wait.wait(60)}}

    def initialize(self, config: dict[str, Any] | None = None) -> None: ...

    def shutdown(self) -> None:
        self.wait.set()

    def register_running_task(self, future: Any, tool_name: str, args: dict[str, Any]) -> TaskHandle:
        handle = super().register_running_task(future, tool_name, args)
        task = self.background_tasks.get(handle.task_id)
        assert task is not None
        task.id = "cli_abc123"
        self.background_tasks.add(task)
        return TaskHandle(task.id, self.name, tool_name, handle.created_at)


def background_task(stage: Stage) -> Iterator[Names]:
    """The two calls as functions; the task runs when its status is asked for, and has ended at the second call."""
    registry = PluginRegistry(workspace=stage.path)
    builder = Builder()
    registry.register_plugin(builder, expose=True)
    registry.expose_tool("background")
    made = ToolExecutor()
    made.set_registry(registry)
    answers: list[dict[str, Any]] = []

    def checkBackgroundTask(task_id: str) -> None:
        answers.append(made.execute("checkBackgroundTask", {"task_id": task_id})[1])
        builder.wait.set()
        task = builder.background_tasks.get(task_id)
        assert task is not None
        assert task.done.wait(60)

    def getBackgroundOutput(task_id: str) -> None:
        answers.append(made.execute("getBackgroundOutput", {"task_id": task_id})[1])

    try:
        builder.start_background("build", {})
        yield {"checkBackgroundTask": checkBackgroundTask, "getBackgroundOutput": getBackgroundOutput}
        assert answers[0] == {"task_id": "cli_abc123", "status": "running"}
        assert answers[1] == {"task_id": "cli_abc123", "status": "completed", "result": {"built": True}}
    finally:
        registry.shutdown()


def analyze_tool(stage: Stage) -> Iterator[Names]:
    """Both calls are in the tool at once; each one's output goes to its own callback."""
    together = threading.Barrier(2, timeout=60)

    def analyze(args: dict[str, Any]) -> dict[str, Any]:
        together.wait()
        tell = get_current_tool_output_callback()
        assert tell is not None
        tell(args["f"])
        return {"analyzed": args["f"]}

    made = ToolExecutor()
    made.register("analyze", analyze)
    names: Names = {"executor": made}
    yield names
    assert names["results"] == [(True, {"analyzed": "a.py"}), (True, {"analyzed": "b.py"})]
    assert sorted(stage.out().split("\n")) == ["", "[call_1] a.py", "[call_2] b.py"]


def after_basic_usage(names: Names) -> None:
    """The result is the printed one."""
    assert (names["success"], names["result"]) == (True, {"result": "hellohello"})


def after_output_callbacks(names: Names) -> None:
    """Both callbacks are the executor's, and a tool's output reaches its own."""
    made: ToolExecutor = names["executor"]
    assert made.get_output_callback() is names["on_output"]
    assert made.get_tool_output_callback() is names["on_tool_output"]
    heard: list[str] = []
    made.set_tool_output_callback(heard.append)
    made.register("speak", lambda _args: names["get_current_tool_output_callback"]()("hello"))
    assert made.execute("speak", {}) == (True, None)
    assert heard == ["hello"]


def after_configuration(names: Names) -> None:
    """The exposed tools run, and the ledger hears of it; no callback was set."""
    try:
        assert names["executor"].execute("get_environment", {})[0] is True
        assert names["ledger"].entries[-1]["stage"] == "tool-result"
        assert (names["output_cb"], names["tool_cb"]) == (None, None)
    finally:
        names["registry"].shutdown()


PRELUDES = {
    prelude.__name__: prelude
    for prelude in (
        executor, streaming_tools, metadata_tool, denied_tool, delete_tool, write_tool, slow_command, background_task,
        analyze_tool,
    )
}  # fmt: skip
AFTER = {
    "tool_executor_01": after_basic_usage,
    "tool_executor_11": after_output_callbacks,
    "tool_executor_13": after_configuration,
}
