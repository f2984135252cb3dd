"""`ToolExecutor`: the pipeline for programs that call tools themselves, without a loop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from jaato.errors import ToolError
from jaato.protocol.events import Permission
from jaato.protocol.ids import new_id
from jaato.protocol.specs import ToolSpec
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.enrichment import enrich_result, result_enrichers
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.call import CURRENT, HERE, Call, Outcome, no_output
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

    `execute` gives `(True, the tool's result)` or `(False, {"error": …})`; with a permission plugin a dict result
    carries `_permission`. Safe to use from several threads.
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
        self._permission: Any = None
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
        """Ask this plugin before every call; None disables it. `context` (`session_id`, …) goes with each question."""
        self._permission, self._context = plugin, dict(context or {})
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
        """The tool `execute` would run for this name."""
        tool = self._tools.get(name)
        if tool is not None:
            return ToolMatch(tool, {})
        return self._registry.catalog.find(name) if self._registry is not None else None

    def note(self, stage: str, **data: Any) -> None:
        """Record something in the ledger, if there is one."""
        if self._ledger is not None:
            self._ledger.record(stage, **data)

    def plugin_of(self, tool: Tool) -> Any:
        """The background-capable plugin that owns a tool, if any."""
        toolset = self._registry.toolset(tool.plugin) if self._registry is not None else None
        return toolset.background if toolset is not None else None


class LibrarySteps:
    """The pipeline's steps where nothing suspends: threads wait, and so does the caller."""

    def __init__(self, executor: ToolExecutor, background: bool, pool_size: int) -> None:
        self.executor = executor
        self.background = background
        self.gate: Any = None
        self.tasks = TaskRecords()
        self._slots = threading.BoundedSemaphore(max(1, pool_size))

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

    def record_start(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Nothing durable without a session."""

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Run in this thread, or in another one when it may go on in the background."""
        plugin = self.executor.plugin_of(tool)
        threshold = tool.background_after_s
        if plugin is not None and plugin.supports_background(tool.name):
            threshold = plugin.get_auto_background_threshold(tool.name)
        if threshold is None or not self.background:
            value = tool.run(call.arguments, call)
            return PORTAL.call(value) if inspect.iscoroutine(value) else value
        return self._within(call, tool, plugin, threshold)

    def _within(self, call: Call, tool: Tool, plugin: Any, threshold_s: float) -> Any:
        context = copy_context()

        def work() -> Any:
            with self._slots:
                value = context.run(tool.run, call.arguments, call)
                return PORTAL.call(value) if inspect.iscoroutine(value) else value

        log = None
        if plugin is None:
            log = BackgroundTask(tool.name, tool.plugin, call.token.cancel, call_id=call.id)
            call.output = tee(log.output.write, call.output)
        future = start_thread(work)
        ended, value = wait_for_outcome(future, threshold_s)
        if ended:
            return value
        if log is not None:
            task = self.tasks.add(log)
            watch(task, future, outcome_of_future)
            task_id, owner = task.id, tool.plugin
        else:
            handle = plugin.register_running_task(future, tool.name, call.arguments)
            task_id, owner = handle.task_id, handle.plugin_name
        self.executor.note("auto-background", tool=tool.name, task_id=task_id, threshold_seconds=threshold_s)
        return promise_result(task_id, owner, tool.name, threshold_s)

    def start(self, parent: Call, tool: str, args: dict[str, Any], plugin: str | None) -> Any:
        """Have a plugin run another tool in the background from the start: validated and permitted as any call.

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
        outcome = run_without_loop(run(call, StartSteps(self, plugin)))
        if not outcome.ok:
            raise Reraised(outcome)
        return outcome.value

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """What plugins of the registry add, as far as that needs no loop."""
        registry = self.executor._registry  # noqa: SLF001 the other half of the same part
        if outcome.ok and registry is not None:
            enrichers = result_enrichers(registry.everyone(), call.name)
            outcome.value = enrich_result(call, outcome.value, enrichers)
        return outcome

    def record_end(self, call: Call, outcome: Outcome) -> None:
        """Note how it went."""
        if self.executor._ledger is not None:  # noqa: SLF001 the other half of the same part
            self.executor.note("tool-result", tool=call.name, call_id=call.id, ok=outcome.ok)

    def interrupts(self, error: BaseException) -> bool:
        """The user's Ctrl-C ends the program, not just the call."""
        return isinstance(error, KeyboardInterrupt)


class StartSteps(LibrarySteps):
    """The same steps for a call that its plugin runs in the background: its value is the task's handle."""

    def __init__(self, steps: LibrarySteps, plugin: str | None) -> None:
        self.executor = steps.executor
        self.gate = steps.gate
        self._plugin = plugin

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """Only a background-capable plugin can run it, and only the one that was named."""
        capable = self.executor.plugin_of(tool)
        if (
            capable is None
            or self._plugin not in (None, tool.plugin)
            or not capable.supports_background(tool.name)
        ):
            return ToolError(f"No background-capable plugin offers {call.name!r}.")
        return None

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Start it."""
        return self.executor.plugin_of(tool).start_background(tool.name, call.arguments)

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """A handle is no result."""
        return outcome

    def record_end(self, call: Call, outcome: Outcome) -> None:
        """It has begun; the plugin knows how it ends."""


def tee(first: ToolOutputCallback, second: ToolOutputCallback) -> ToolOutputCallback:
    """A callback that calls two others."""

    def forward(text: str) -> None:
        first(text)
        second(text)

    return forward


def to_documented_result(outcome: Outcome) -> tuple[bool, Any]:
    """The outcome as `(success, result)`; `_permission` is added to dict results."""
    permission = outcome.permission
    extra = {} if permission is None else {"_permission": as_dict(permission)}
    if outcome.ok:
        value = outcome.value
        return True, ({**value, **extra} if extra and isinstance(value, dict) else value)
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
