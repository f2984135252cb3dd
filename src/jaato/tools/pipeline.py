"""The one way a call runs, whoever makes it.

known → active → arguments valid → permitted (edited arguments return to *valid*) → start durable → background → run →
enrich → result durable. Knows no event loop and no thread: what suspends or blocks is injected, so that a session runs
it on its loop and the synchronous executor steps it by hand.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from jaato.errors import InvalidArguments, JaatoError, PermissionDenied, ToolError, UnknownTool
from jaato.protocol.codec import is_unicode
from jaato.protocol.events import Permission
from jaato.tools.call import Call, Outcome, problem_of
from jaato.tools.catalog import Catalog, ToolMatch
from jaato.tools.permissions.gate import Decision
from jaato.tools.redaction.redactor import placeholder_in
from jaato.tools.schema import arguments_error
from jaato.tools.tool import Tool

MAX_EDITS = 5
T = TypeVar("T")


class LoopNeeded(RuntimeError):
    """A coroutine that was run without an event loop was about to wait."""


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose awaits never suspend. Raises `LoopNeeded` for one whose do."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise LoopNeeded("A synchronous call was about to wait for an event loop.")


class Steps(Protocol):
    """The steps that differ between callers (session, library, server). Those that are coroutines may suspend."""

    def find(self, name: str) -> ToolMatch | None:
        """The tool of this name or alias, and how its arguments are renamed."""
        ...

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """Why a known tool may not run here: inactive, disabled."""
        ...

    async def permit(self, call: Call, tool: Tool) -> Decision | None:
        """Decide whether it may run; None without a permission policy."""
        ...

    async def record_start(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Make the start durable."""
        ...

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Run it, in the background if it takes long; gives its value or raises."""
        ...

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """Let plugins add to the result."""
        ...

    async def record_end(self, call: Call, outcome: Outcome) -> None:
        """Make the result durable."""
        ...

    def record_end_now(self, call: Call, outcome: Outcome) -> None:
        """Make the result durable without waiting: its task may be cancelled."""
        ...

    def interrupts(self, error: BaseException) -> bool:
        """Whether this exception ends more than the call (cancellation, the program's end)."""
        ...


async def run(call: Call, steps: Steps, tool: Tool | None = None) -> Outcome:
    """Run one call to its outcome; a failure is a value, only an interruption is raised (its outcome recorded). The time in
    which its permission is decided is no part of its duration.

    `tool` is what is called, where the name does not say which it is.
    """
    begun = time.perf_counter()
    may_have_run = call.again
    try:
        ready = await prepare(call, steps, tool)
        if isinstance(ready, Outcome):
            outcome = ready
        else:
            may_have_run = True
            outcome = await perform(call, steps, *ready)
    except BaseException as error:
        if steps.interrupts(error):
            begun += call.permission_s
            steps.record_end_now(call, make_interrupted_outcome(begun, may_have_run=may_have_run))
            raise
        outcome = failure_outcome(error)
    outcome.duration_s = time.perf_counter() - begun - call.permission_s
    await steps.record_end(call, outcome)
    return outcome


async def prepare(
    call: Call, steps: Steps, exact: Tool | None = None
) -> Outcome | tuple[Tool, Permission | None]:
    """Everything before the call starts: the tool it means and its permission, or the outcome of one that may not start."""
    tool = exact if exact is not None else find_tool(call, steps)
    if tool is None:
        return failure_outcome(UnknownTool(f"No executor registered for {call.name}"))
    if call.name != tool.name:
        call.name, call.alias = tool.name, call.name
    refusal = steps.refuse(tool, call) or invalid(call, tool)
    if refusal is None and tool.means is not None:
        tool = resolve_tool(call, tool, steps)
        refusal = steps.refuse(tool, call) or invalid(call, tool)
    refusal = refusal or check_placeholders(call, tool)
    if refusal is not None:
        return failure_outcome(refusal)
    permission, refusal = await ask_permission(call, tool, steps)
    if refusal is not None:
        return failure_outcome(refusal, permission)
    return tool, permission


async def perform(call: Call, steps: Steps, tool: Tool, permission: Permission | None) -> Outcome:
    """Start the call, durably, and run it."""
    await steps.record_start(call, tool, permission)
    try:
        value = await steps.invoke(call, tool)
    except BaseException as error:
        if steps.interrupts(error):
            raise
        return failure_outcome(error, permission)
    return await steps.enrich(call, tool, success_outcome(value, permission))


def find_tool(call: Call, steps: Steps) -> Tool | None:
    """The tool of a call, by its name; its arguments have the tool's own names then."""
    found = steps.find(call.name)
    if found is None:
        return None
    tool, rename = found
    if rename:
        call.arguments = {rename.get(key, key): value for key, value in call.arguments.items()}
    return tool


def resolve_tool(call: Call, tool: Tool, steps: Steps) -> Tool:
    """The tool that a call of this one means, which it then is; itself where it means none that is known."""
    named = tool.means(call.arguments) if tool.means is not None else None
    found = steps.find(named[0]) if named is not None else None
    if named is None or found is None:
        return tool
    call.name, call.arguments, call.stands_for = found.tool.name, named[1], tool.name
    call.alias = ""
    return found.tool


def invalid(call: Call, tool: Tool) -> InvalidArguments | None:
    """The validation error of the arguments, with every problem by its path, or None."""
    if call.malformed is not None:
        text = call.malformed[:200] if is_unicode(call.malformed) else "not Unicode text"
        return InvalidArguments(
            f"The arguments of {call.asked_name} are no JSON object: {text}", [("", "no JSON object")]
        )
    issues = tool.issues(call.arguments)
    return arguments_error(call.asked_name, issues) if issues else None


def check_placeholders(call: Call, tool: Tool) -> InvalidArguments | None:
    """Why a call may not carry the placeholder of a masked secret: it would be written over the secret."""
    if tool.spec.access == "read":
        return None
    path = placeholder_in(call.arguments)
    if path is None:
        return None
    return InvalidArguments(
        f"{call.asked_name} was not run: {path} has a placeholder [masked:…], which stands for a secret that is not shown. "
        "Written back it would destroy the secret. Leave its line as it is and change only the lines around it: "
        "updateFile with old and new text that do not contain it. A command takes it from its variable or file.",
        [(path, "has the placeholder of a masked secret")],
    )


def check_edit(catalog: Catalog, name: str, arguments: dict[str, Any]) -> None:
    """Raise `InvalidArguments` for edited arguments that the call of a tool could not run with, also where the tool fails to
    examine them; those of a tool that is not there any more are left to the call."""
    found = catalog.find(name)
    if found is None:
        return
    edited = Call("", name, arguments)
    try:
        refusal = invalid(edited, found.tool) or check_placeholders(edited, found.tool)
    except BaseException as error:  # noqa: BLE001 what a tool examines with may be third-party code
        refusal = arguments_error(name, [("", f"cannot be examined: {problem_of(error).message}")])
    if refusal is not None:
        raise refusal


async def ask_permission(call: Call, tool: Tool, steps: Steps) -> tuple[Permission | None, ToolError | None]:
    """Ask for permission until the answer fits the arguments; edited ones are validated and judged again."""
    for _ in range(MAX_EDITS):
        asked = time.perf_counter()
        try:
            decision = await steps.permit(call, tool)
        finally:
            call.permission_s += time.perf_counter() - asked
        if decision is None:
            return None, None
        permission = decision.permission
        if not decision.allowed:
            result = f' The user says: "{decision.comment}"' if decision.comment else ""
            return permission, PermissionDenied(
                f"Permission denied for {call.asked_name}: {permission.reason}{result}"
            )
        if decision.arguments is None:
            call.access, call.access_reason = permission.access, permission.reason
            return permission, None
        call.arguments, call.edited = decision.arguments, True
        refusal = invalid(call, tool) or check_placeholders(call, tool)
        if refusal is not None:
            return permission, refusal
    return None, PermissionDenied(
        f"The arguments of {call.asked_name} were edited {MAX_EDITS} times without an answer."
    )


def success_outcome(value: Any, permission: Permission | None) -> Outcome:
    """The outcome of a call that returned; a `(result, metadata)` pair of dicts is merged into a new dict."""
    match value:
        case (dict() as result, dict() as metadata):
            return Outcome(True, {**result, **metadata}, None, permission, metadata)
    return Outcome(True, value, None, permission)


def failure_outcome(error: BaseException, permission: Permission | None = None) -> Outcome:
    """The outcome of a call that raised."""
    text = None
    if not isinstance(error, JaatoError):
        text = "".join(traceback.format_exception(error, limit=-12))
    return Outcome(False, None, problem_of(error, text), permission)


def make_interrupted_outcome(begun: float, *, may_have_run: bool = True) -> Outcome:
    """The outcome of a call that was cancelled while it ran, or before it started."""
    text = "finished; what it had done so far stays done" if may_have_run else "started; it has done nothing"
    problem = problem_of(ToolError(f"Cancelled before it {text}."))
    problem = type(problem)(code="cancelled", message=problem.message)
    return Outcome(False, None, problem, duration_s=time.perf_counter() - begun)


class Reraised(ToolError):
    """An outcome that was reached elsewhere, on its way through the pipeline."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.problem.message if outcome.problem else "The call failed.")
        self.problem = outcome.problem
