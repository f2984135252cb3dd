"""Tools as they are run: with arguments of their own, and nothing they raise ends more than their call."""

from __future__ import annotations

from traceback import format_exception
from typing import Any

from jaato.errors import ToolError
from jaato.tools.call import Call, clean, problem_of, text_of
from jaato.tools.tool import Tool


def shown_as(metadata: dict[str, Any]) -> dict[str, Any]:
    """How clients are to show a call, by what its tool says beside its result."""
    continuation = metadata.get("continuation_id")
    return {
        "continuation_id": None if continuation is None else clean(text_of(continuation, str)),
        "show_output": metadata.get("show_output") is not False,
        "show_popup": metadata.get("show_popup") is not False,
    }


def took_too_long(tool: Tool, limit_s: float) -> str:
    """What is said of a call that was stopped for that."""
    end = "and was stopped" if tool.is_async else "and was told to stop; it may still be at work"
    return f"{tool.name} did not finish within {limit_s:g} s {end}."


def first_of(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group, as a single call would have raised it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def own(value: Any) -> Any:
    """Arguments as the tool's own: what it changes in them is changed neither in the history nor in an event."""
    match value:
        case dict():
            return {key: item if item.__class__ is str else own(item) for key, item in value.items()}
        case list():
            return [own(item) for item in value]
    return value


class Ending(ToolError):
    """What a tool raised that would end more than its call; its words are no more ours than those of any exception."""

    def __init__(self, error: BaseException) -> None:
        self.problem = problem_of(error, "".join(format_exception(error, limit=-12)))
        super().__init__(self.problem.message)


def contained(tool: Tool, call: Call) -> Any:
    """Run a synchronous tool in a worker thread; what would end the thread is an error of the tool."""
    try:
        return tool.run(call.arguments, call)
    except Exception:
        raise
    except BaseException as error:
        raise Ending(error) from error
