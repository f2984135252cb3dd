"""The plugin `background`: start, check, read, stop and list tasks that run while the model does something else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread

from jaato.abc.plugin import BackgroundCapable, Host, Plugin, TaskHandle, TaskStatus, UserCommand
from jaato.errors import ToolError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Text
from jaato.tools.call import CURRENT, Call, result_of
from jaato.tools.processes.sandbox.cleanup import add_to_result
from jaato.tools.processes.sandbox.sandbox import quarantine_new_control_files
from jaato.tools.task_records import (
    BackgroundTask,
    TaskRecords,
    outcome_of_future,
    start_thread,
    stop_after,
    watch,
)
from jaato.tools.tool import tool

READ_CHARS = 20_000
MAX_ROWS = 100


class BackgroundPlugin(Plugin):
    """Work that continues while the model does something else."""

    name = "background"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.background_tasks = TaskRecords()
        """The tasks of calls that belong to no session and no executor."""

    @tool(
        category="coordination",
        access="read",
        aliases={
            "startBackgroundTask": {"tool_name": "tool", "arguments": "args", "timeout_seconds": "timeout_s"}
        },
    )
    async def start_background(
        self,
        tool: str,
        args: dict[str, Any] | None = None,
        plugin: str | None = None,
        timeout_s: float | None = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Run any other tool in the background and get a task_id at once. Use it for long builds and downloads."""
        session = call.services.get("session")
        if session is None:
            start = call.services.get("start") or self._start_here
            handle: TaskHandle = await anyio.to_thread.run_sync(
                start, call, tool, args or {}, plugin, timeout_s
            )
            return {"task_id": handle.task_id, "tool": tool, "status": TaskStatus.RUNNING.value}
        found = session.catalog.find(tool)
        if found is None:
            raise ToolError(f"No tool {tool!r}; find the name with list_tools.")
        if plugin is not None and found.tool.plugin != plugin:
            raise ToolError(
                f"{tool} is of the plugin {found.tool.plugin}, not of {plugin}; leave `plugin` out."
            )
        task: BackgroundTask = await session.tools.background.start(call, tool, args or {}, timeout_s)
        return {"task_id": task.id, "tool": tool, "status": task.status.value}

    def _start_here(
        self, call: Call, tool: str, args: dict[str, Any], plugin: str | None, timeout_s: float | None
    ) -> TaskHandle:
        """Where a program calls this tool's own function: run the other one by its own function, in a thread."""
        found = self.host.service("catalog").find(tool)
        if found is None:
            raise ToolError(f"No tool {tool!r}; find the name with list_tools.")
        owner, name = found.tool.plugin, found.tool.name
        if plugin not in (None, owner):
            raise ToolError(f"{tool} is of the plugin {owner}, not of {plugin}; leave `plugin` out.")
        given = {found.rename.get(key, key): value for key, value in args.items()}
        toolset = self.host.service("registry").toolset(owner)
        capable = toolset.background if toolset is not None else None
        if capable is not None and capable.supports_background(name):
            handle: TaskHandle = capable.start_background(name, given)
            stop_after(timeout_s, lambda: capable.cancel(handle.task_id))
            return handle
        run = self.host.service("registry").get_exposed_executors()[name]
        inner = Call(new_id("c"), name, given, workspace=call.workspace)
        task = BackgroundTask(name, owner, inner.token.cancel, call_id=inner.id)
        inner.output = task.output.write

        def work() -> Any:
            CURRENT.set(inner)
            return run(given)

        watch(self.background_tasks.add(task), start_thread(work), outcome_of_future)
        stop_after(timeout_s, task.cancel)
        return TaskHandle(task.id, owner, name, task.started_at)

    def _capable(self) -> list[BackgroundCapable]:
        toolsets = self.host.service("registry").toolsets()
        return [toolset.background for toolset in toolsets if toolset.background is not None]

    def _plugin_tasks(self) -> list[BackgroundTask]:
        """The tasks that plugins keep themselves."""
        records = (getattr(capable, "background_tasks", None) for capable in (self, *self._capable()))
        return [task for kept in records if kept is not None for task in kept.all()]

    @tool(
        category="coordination",
        access="read",
        aliases={"getBackgroundTaskStatus": {}, "checkBackgroundTask": {}, "getBackgroundTask": {}},
    )
    async def check_background(self, task_id: str, *, call: Call) -> dict[str, Any]:
        """Say whether a background task is running, completed, failed or cancelled."""
        task = self._find_task(call, task_id)
        if task is not None:
            return add_to_result(task_row(task), quarantine_new_control_files(self.host))
        capable = self._owner(task_id)
        return {"task_id": task_id, "status": capable.get_status(task_id).value}

    @tool(
        category="coordination",
        access="read",
        aliases={"getBackgroundTaskResult": {}, "getBackgroundOutput": {}},
    )
    async def get_background_output(self, task_id: str, offset: int = 0, *, call: Call) -> dict[str, Any]:
        """Read what a background task has printed since `offset`, and its result once it has ended."""
        task = self._find_task(call, task_id)
        if task is None:
            result = self._owner(task_id).get_result(task_id)
            found = {"task_id": task_id, "status": result.status.value, "result": result.result}
            return found | ({"error": result.error} if result.error else {})
        text, end = task.output.read(max(0, offset))
        cut = text[-READ_CHARS:]
        answer = task_row(task) | {"output": cut, "next_offset": end}
        if len(cut) < len(text):
            answer["omitted_characters"] = len(text) - len(cut)
        if task.outcome is not None and task.done.is_set():
            outcome = result_of(Call(id=task.call_id, name=task.tool, arguments={}), task.outcome)
            texts = [part.text for part in outcome.content if isinstance(part, Text)]
            value = outcome.structured if outcome.structured is not None else "".join(texts)
            answer |= (
                {"result": value} if outcome.ok else {"error": outcome.error.message if outcome.error else ""}
            )
        return add_to_result(answer, quarantine_new_control_files(self.host))

    @tool(category="coordination", access="read", aliases={"cancelBackgroundTask": {}})
    async def stop_background(self, task_id: str, *, call: Call) -> dict[str, Any]:
        """Stop a background task and everything it started."""
        task = self._find_task(call, task_id)
        if task is None:
            return {"task_id": task_id, "stopped": self._owner(task_id).cancel(task_id)}
        running = not task.done.is_set()
        task.cancel()
        return {"task_id": task_id, "stopped": running}

    @tool(category="coordination", access="read", aliases={"listBackgroundTasks": {}})
    async def list_background(self, *, call: Call) -> dict[str, Any]:
        """List the background tasks of this session, the running ones first."""
        tasks = self._list_tasks(call)
        return {"tasks": [task_row(task) for task in tasks[:MAX_ROWS]], "count": len(tasks)}

    def _list_tasks(self, call: Call | None) -> list[BackgroundTask]:
        """The tasks of a session, the running ones first."""
        own = tasks_of_call(call) if call is not None else None
        tasks = [*(own.all() if own is not None else ()), *self._plugin_tasks()]
        return sorted(tasks, key=lambda task: (task.done.is_set(), task.started_at))

    def _find_task(self, call: Call, task_id: str) -> BackgroundTask | None:
        """The task of this id, if it is the session's, the executor's or this plugin's own."""
        tasks = tasks_of_call(call)
        task = tasks.get(task_id) if tasks is not None else None
        return task or self.background_tasks.get(task_id)

    def _owner(self, task_id: str) -> BackgroundCapable:
        for capable in self._capable():
            try:
                capable.get_status(task_id)
            except KeyError:
                continue
            return capable
        raise ToolError(f"No background task {task_id!r}; list_background shows them.")

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`tasks` lists them for the user, `tasks ID` shows the newest output of one."""
        command = UserCommand("tasks", "List the background tasks, or show the output of one: tasks [ID]")
        return {command: self.describe_tasks}

    def describe_tasks(self, line: str) -> str:
        """The answer to `tasks` and `tasks ID`."""
        tasks = self._list_tasks(CURRENT.get())
        if not (task_id := line.strip()):
            return "\n".join(map(describe_task, tasks[:MAX_ROWS])) or "There are no background tasks."
        task = next((one for one in tasks if one.id == task_id), None)
        if task is None:
            raise ToolError(f"No background task {task_id!r}; /tasks lists them.")
        text, end = task.output.read()
        shown = text[-READ_CHARS:]
        lines = [describe_task(task)]
        if len(shown) < end:
            lines.append(f"… {end - len(shown):,} characters before")
        return "\n".join([*lines, "", shown or "(no output)"])


def describe_task(task: BackgroundTask) -> str:
    """A task in one line: id, state, duration, exit code and tool."""
    end = datetime.fromisoformat(task.ended_at) if task.ended_at else datetime.now(UTC)
    duration_s = (end - datetime.fromisoformat(task.started_at)).total_seconds()
    value = task.outcome.value if task.outcome is not None else None
    code = value.get("exit_code") if isinstance(value, dict) else None
    status = task.status.value + (f", exit {code}" if isinstance(code, int) else "")
    return f"{task.id}  {status:<18} {duration_s:>8.1f} s  {task.tool}"


def tasks_of_call(call: Call) -> TaskRecords | None:
    """The tasks of the session, or of the executor that makes the call."""
    session = call.services.get("session")
    tasks: TaskRecords | None = call.services.get("tasks") if session is None else session.tasks
    return tasks


def task_row(task: BackgroundTask) -> dict[str, Any]:
    """A task in a few words."""
    found = {
        "task_id": task.id,
        "tool": task.tool,
        "status": task.status.value,
        "started_at": task.started_at,
    }
    return found | ({"ended_at": task.ended_at} if task.ended_at else {})
