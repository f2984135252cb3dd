"""How a tool is run: with arguments of its own, where nothing it raises or swallows ends more than its call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Generator
from traceback import format_exception
from types import CoroutineType
from typing import Any

from jaato.errors import ToolError
from jaato.log import logger
from jaato.tools.call import Call, problem_of, replace_surrogates, safe_text
from jaato.tools.tool import Tool

GRACE_S = 2.0
"""How long a cancelled coroutine may go on awaiting things outside a shield before it is closed."""
LOG = logger("tool")


def display_fields(metadata: dict[str, Any]) -> dict[str, Any]:
    """How clients are to show a call, by what its tool says beside its result."""
    continuation = metadata.get("continuation_id")
    return {
        "continuation_id": None if continuation is None else replace_surrogates(safe_text(continuation, str)),
        "show_output": metadata.get("show_output") is not False,
        "show_popup": metadata.get("show_popup") is not False,
    }


def timeout_message(tool: Tool, limit_s: float) -> str:
    """What is said of a call that was stopped for that."""
    end = "and was stopped" if tool.is_async else "and was told to stop; it may still be at work"
    return f"{tool.name} did not finish within {limit_s:g} s {end}."


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group, as a single call would have raised it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def copied(value: Any) -> Any:
    """Arguments as the tool's own: what it changes in them is changed neither in the history nor in an event."""
    match value:
        case dict():
            return {key: item if item.__class__ is str else copied(item) for key, item in value.items()}
        case list():
            return [copied(item) for item in value]
    return value


class EscapedError(ToolError):
    """What a tool raised that would end more than its call; its words are no more ours than those of any exception."""

    def __init__(self, error: BaseException) -> None:
        self.problem = problem_of(error, "".join(format_exception(error, limit=-12)))
        super().__init__(self.problem.message)


def run_contained(tool: Tool, call: Call) -> Any:
    """Run a synchronous tool in a worker thread; what would end the thread is an error of the tool."""
    try:
        return tool.run(call.arguments, call)
    except Exception:
        raise
    except BaseException as error:
        raise EscapedError(error) from error


class CancellableCall:
    """Awaits a coroutine as `await` does. One that goes on after it was cancelled is closed when its time is over; in
    a shield it has all the time it needs. Time limits of its own, which it cancels itself by and goes on, are its affair.

    A coroutine that resists even that is left where it is, and never resumed.
    """

    __slots__ = ("_name", "_runner", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], name: str, runner: asyncio.Task[Any] | None) -> None:
        self._work = work
        self._name = name
        self._runner = runner

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work
        runner = self._runner
        before = runner.cancelling() if runner is not None else 0
        until: float | None = None
        step, thing = work.send, None
        while True:
            try:
                awaited = step(thing)
            except StopIteration as done:
                return done.value
            if runner is not None and runner.cancelling() <= before:
                until = None  # a scope of its own, which has ended
            try:
                thing = yield awaited
                step = work.send
            except GeneratorExit:
                work.close()
                raise
            except (
                asyncio.CancelledError
            ) as error:  # thrown in again and again, unless a shield keeps it away
                now = time.monotonic()
                until = now + GRACE_S if until is None else until
                if now > until:
                    self._close()
                    raise
                step, thing = work.throw, error
            except BaseException as error:  # noqa: BLE001 whatever is thrown in is the coroutine's to handle
                step, thing = work.throw, error

    def _close(self) -> None:
        LOG.warning("The tool %s did not heed its cancellation and was closed", self._name)
        try:
            self._work.close()
        except RuntimeError:
            pass  # it awaits even now; nobody will wake it


def cancellable(value: Any, name: str, runner: asyncio.Task[Any] | None) -> Awaitable[Any]:
    """An awaitable a tool gave, as one that a cancellation of the task ends that awaits it."""
    return CancellableCall(value, name, runner) if isinstance(value, CoroutineType) else value
