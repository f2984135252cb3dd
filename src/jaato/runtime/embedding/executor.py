"""`ToolExecutor`: the pipeline for programs that call tools themselves, without a loop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

import msgspec

from jaato.abc.plugin import BackgroundCapable, TaskHandle
from jaato.errors import ToolError
from jaato.protocol.events import Permission
from jaato.protocol.ids import new_id
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.enrichment import enrich_result, result_enrichers
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.call import CURRENT, HERE, Call, Outcome, no_output, to_plain_value
from jaato.tools.catalog import ToolMatch
from jaato.tools.ledger import TokenLedger
from jaato.tools.permissions.gate import Decision
from jaato.tools.pipeline import Reraised, run, run_without_loop
from jaato.tools.task_records import (
    BackgroundTask,
    TaskRecords,
    outcome_of_future,
    promise_result,
    start_thread,
    stop_after,
    wait_for_outcome,
    watch,
)
from jaato.tools.tool import Tool

T = TypeVar("T")
Executor = Callable[[dict[str, Any]], Any]
OutputCallback = Callable[[str, str, str], None]
ToolOutputCallback = Callable[[str], None]


def get_current_tool_output_callback() -> ToolOutputCallback | None:
    """Where the call that runs in this thread or task sends its output, or None."""
    call = CURRENT.get()
    return None if call is None or call.output is no_output else call.output


class ToolExecutor:
    """Maps tool names to functions and runs them: validated, permitted, moved to the background when slow.

    `execute` gives `(True, the tool's result)` or `(False, {"error": …})`. With a permission plugin every result is a
    dict that carries `_permission`; a value that is no dict is its `result`. Safe to use from several threads.
    """

    def __init__(
        self,
        ledger: TokenLedger | None = None,
        auto_background_enabled: bool = True,
        auto_background_pool_size: int = 4,
    ) -> None:
        self._ledger = ledger
        self._tools: dict[str, Tool] = {}
        self._registry: PluginRegistry | None = None
        self._context: dict[str, Any] = {}
        self._output: OutputCallback | None = None
        self._tool_output: ToolOutputCallback | None = None
        self._steps = LibrarySteps(self, auto_background_enabled, auto_background_pool_size)

    def register(self, name: str, fn: Executor) -> None:
        """Map a name to any callable that takes the argument dict; a second registration replaces the first."""
        if not callable(fn):
            raise TypeError(f"The executor of {name!r} is a {type(fn).__name__}, which cannot be called.")
        spec = ToolSpec(name=name, description=inspect.getdoc(fn) or "", parameters={"type": "object"})
        self._tools[name] = Tool(spec=spec, run=lambda arguments, _call: fn(arguments))

    def clear_executors(self) -> None:
        """Forget every registered function."""
        self._tools.clear()

    def execute(
        self,
        name: str,
        args: dict[str, Any],
        tool_output_callback: ToolOutputCallback | None = None,
        call_id: str | None = None,
    ) -> tuple[bool, Any]:
        """Run one tool and wait for it (or for the promise of a background task)."""
        call = Call(
            id=call_id or new_id("c"),
            name=name,
            arguments=args,
            session_id=str(self._context.get("session_id", "")),
            output=tool_output_callback or self._tool_output or no_output,
            services={"tasks": self._steps.tasks, "start": self._steps.start},
            workspace=self._registry.workspace if self._registry else HERE,
        )
        if not isinstance(args, dict):
            call.arguments, call.malformed = {}, repr(args)
        before = CURRENT.set(call)
        try:
            outcome = run_without_loop(run(call, self._steps))
        finally:
            CURRENT.reset(before)
        return to_documented_result(outcome)

    def set_permission_plugin(self, plugin: Any, context: dict[str, Any] | None = None) -> None:
        """Ask this plugin before every call; None disables it. `context` (`session_id`, …) goes with each question. Raises
        `TypeError` for another object; the plugin before stays."""
        if plugin is not None and getattr(plugin, "gate", None) is None:
            raise TypeError(
                f"{type(plugin).__name__} is no permission plugin; pass a PermissionPlugin, or None."
            )
        self._context = dict(context or {})
        self._steps.gate = None if plugin is None else plugin.gate

    def set_output_callback(self, callback: OutputCallback | None) -> None:
        """Where plugins that support it send general output, as (source, text, mode)."""
        self._output = callback
        if self._registry is not None:
            for toolset in self._registry.toolsets():
                if set_callback := toolset.wiring.get("set_output_callback"):
                    set_callback(callback)

    def get_output_callback(self) -> OutputCallback | None:
        """The general output callback."""
        return self._output

    def set_tool_output_callback(self, callback: ToolOutputCallback | None) -> None:
        """Where a tool's own output goes when `execute` is not given a callback."""
        self._tool_output = callback

    def get_tool_output_callback(self) -> ToolOutputCallback | None:
        """The callback of the call that runs in this thread, else the executor's."""
        return get_current_tool_output_callback() or self._tool_output

    def set_ledger(self, ledger: TokenLedger | None) -> None:
        """Record permission checks, background moves and results here."""
        self._ledger = ledger

    def set_registry(self, registry: PluginRegistry | None) -> None:
        """Look tools up here too; needed for background tasks of plugins."""
        self._registry = registry
        if self._output is not None:
            self.set_output_callback(self._output)

    @property
    def tasks(self) -> TaskRecords:
        """The background tasks of tools that are not their plugin's own."""
        return self._steps.tasks

    def lookup(self, name: str) -> ToolMatch | None:
        """The tool `execute` would run for this name; a function registered under a plugin's tool name is that plugin's."""
        tool = self._tools.get(name)
        known = self._registry.catalog.find(name) if self._registry is not None else None
        if tool is None:
            return known
        if known is not None:
            owner = known.tool
            tool = msgspec.structs.replace(
                tool, plugin=owner.plugin, background_after_s=owner.background_after_s
            )
        return ToolMatch(tool, {})

    def is_registered(self, name: str) -> bool:
        """Whether a function was registered under this name."""
        return name in self._tools

    def note(self, stage: str, **data: Any) -> None:
        """Record something in the ledger, if there is one."""
        if self._ledger is not None:
            self._ledger.record(stage, **data)

    def find_background_owner(self, tool: Tool) -> tuple[BackgroundCapable | None, str]:
        """The plugin that can run a tool in the background, if any, and the name it has there."""
        known = self._registry.catalog.find(tool.name) if self._registry is not None else None
        toolset = self._registry.toolset(tool.plugin) if self._registry is not None else None
        name = known.tool.name if known is not None else tool.name
        plugin = toolset.background if toolset is not None else None
        return (plugin if plugin is not None and plugin.supports_background(name) else None), name


class LibrarySteps:
    """The pipeline's steps where nothing suspends: threads wait, and so does the caller."""

    def __init__(self, executor: ToolExecutor, background: bool, pool_size: int) -> None:
        self.executor = executor
        self.background = background
        self.gate: Any = None
        self.tasks = TaskRecords()
        self.slots = threading.BoundedSemaphore(max(1, pool_size))

    def find(self, name: str) -> ToolMatch | None:
        """Registered functions first, then the registry."""
        return self.executor.lookup(name)

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """Library calls are not bound by activation."""
        return None

    async def permit(self, call: Call, tool: Tool) -> Decision | None:
        """Ask the permission plugin, if one is set."""
        if self.gate is None:
            return None
        decision: Decision = await self.gate.check(call, tool)
        self.executor.note(
            "permission-check",
            tool=tool.name,
            decision=decision.permission.decision,
            method=decision.permission.method,
        )
        return decision

    async def record_start(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Nothing durable without a session."""

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Run in this thread, or in another one when it may go on in the background."""
        plugin, name = self.executor.find_background_owner(tool)
        threshold = tool.background_after_s
        if plugin is not None:
            threshold = plugin.get_auto_background_threshold(name)
        if threshold is None or not self.background:
            value = tool.run(call.arguments, call)
            return PORTAL.call(value) if inspect.iscoroutine(value) else value
        task = self._record_task(call, tool) if plugin is None else None
        future = self._run_in_thread(call, tool)
        ended, value = wait_for_outcome(future, threshold)
        if ended:
            return value
        handle = self._keep(task, future, call, tool)
        self.executor.note("auto-background", tool=name, task_id=handle.task_id, threshold_seconds=threshold)
        return promise_result(handle.task_id, handle.plugin_name, call.asked_name, threshold)

    def _run_in_thread(self, call: Call, tool: Tool) -> Future[Any]:
        """The result of a call that runs in a thread, once one of the places there is free."""
        context = copy_context()

        def work() -> Any:
            with self.slots:
                value = context.run(tool.run, call.arguments, call)
                return PORTAL.call(value) if inspect.iscoroutine(value) else value

        return start_thread(work)

    def _record_task(self, call: Call, tool: Tool) -> BackgroundTask:
        """A record of a call that keeps what it prints."""
        task = BackgroundTask(tool.name, tool.plugin, call.token.cancel, call_id=call.id)
        call.output = tee(task.output.write, call.output)
        return task

    def _keep(self, task: BackgroundTask | None, future: Future[Any], call: Call, tool: Tool) -> TaskHandle:
        """Remember a running call as a background task: of its plugin, where there is no record of its own."""
        if task is None:
            plugin, name = self.executor.find_background_owner(tool)
            assert plugin is not None
            return plugin.register_running_task(future, name, call.arguments)
        watch(self.tasks.add(task), future, outcome_of_future)
        return TaskHandle(task.id, task.plugin, task.tool, task.started_at)

    def start(
        self,
        parent: Call,
        tool: str,
        args: dict[str, Any],
        plugin: str | None,
        timeout_s: float | None = None,
    ) -> TaskHandle:
        """Run another tool in the background from the start: validated and permitted as any call. After `timeout_s`
        seconds it is stopped.

        Raises what was wrong with it.
        """
        call = Call(
            id=new_id("c"),
            name=tool,
            arguments=args,
            session_id=parent.session_id,
            services=parent.services,
            workspace=parent.workspace,
        )
        outcome = run_without_loop(run(call, StartSteps(self, plugin, timeout_s)))
        if not outcome.ok:
            raise Reraised(outcome)
        handle: TaskHandle = outcome.value
        return handle

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """What plugins of the registry add, as far as that needs no loop."""
        registry = self.executor._registry  # noqa: SLF001 the other half of the same part
        if outcome.ok and registry is not None:
            enrichers = result_enrichers(registry.everyone(), call.name)
            outcome.value = enrich_result(call, outcome.value, enrichers)
        return outcome

    async def record_end(self, call: Call, outcome: Outcome) -> None:
        """Note how it went."""
        self.record_end_now(call, outcome)

    def record_end_now(self, call: Call, outcome: Outcome) -> None:
        """Note how it went."""
        if self.executor._ledger is not None:  # noqa: SLF001 the other half of the same part
            self.executor.note("tool-result", tool=call.name, call_id=call.id, ok=outcome.ok)

    def interrupts(self, error: BaseException) -> bool:
        """The user's Ctrl-C ends the program, not just the call."""
        return isinstance(error, KeyboardInterrupt)


class StartSteps(LibrarySteps):
    """The same steps for a call that runs in the background from the start: its value is the task's handle."""

    def __init__(self, steps: LibrarySteps, plugin: str | None, timeout_s: float | None) -> None:
        self.executor, self.gate, self.tasks, self.slots = (
            steps.executor,
            steps.gate,
            steps.tasks,
            steps.slots,
        )
        self._plugin = plugin
        self._timeout_s = timeout_s

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """Only a tool of the plugin that was named."""
        if self._plugin in (None, tool.plugin):
            return None
        return ToolError(
            f"{call.name} is of the plugin {tool.plugin or 'program'}, not of {self._plugin}; leave `plugin` out."
        )

    async def invoke(self, call: Call, tool: Tool) -> TaskHandle:
        """Start it: by its plugin, if that can, else in a thread."""
        plugin, name = self.executor.find_background_owner(tool)
        if plugin is not None and not self.executor.is_registered(tool.name):
            handle = plugin.start_background(name, call.arguments)
        else:
            task = self._record_task(call, tool) if plugin is None else None
            handle = self._keep(task, self._run_in_thread(call, tool), call, tool)
        stop_after(
            self._timeout_s, call.token.cancel if plugin is None else lambda: plugin.cancel(handle.task_id)
        )
        return handle

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """A handle is no result."""
        return outcome

    def record_end_now(self, call: Call, outcome: Outcome) -> None:
        """It has begun; its end is recorded in the task."""


def tee(first: ToolOutputCallback, second: ToolOutputCallback) -> ToolOutputCallback:
    """A callback that calls two others."""

    def forward(text: str) -> None:
        first(text)
        second(text)

    return forward


def to_documented_result(outcome: Outcome) -> tuple[bool, Any]:
    """The outcome as `(success, result)`; `_permission` is added, to a value that is no dict as that of `result`."""
    permission = outcome.permission
    extra = {} if permission is None else {"_permission": as_dict(permission)}
    if outcome.ok:
        value = to_plain_value(outcome.value)
        if not extra:
            return True, value
        return True, {**(value if isinstance(value, dict) else {"result": value}), **extra}
    problem = outcome.problem
    if problem is None:
        return False, {"error": "The call failed.", **extra}
    result: dict[str, Any] = {
        "error": problem.message,
        "code": problem.code,
        **(problem.details or {}),
        **extra,
    }
    if problem.traceback:
        result["traceback"] = problem.traceback
    return False, result


def as_dict(permission: Permission) -> dict[str, str]:
    """The permission in the documented keys."""
    return {"decision": permission.decision, "reason": permission.reason, "method": permission.method}
