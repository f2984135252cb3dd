"""Tools and user commands as plain functions of an argument dict, which block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from jaato.abc.plugin import ToolSchema
from jaato.runtime.adapt import Toolset
from jaato.runtime.portal import PORTAL
from jaato.tools.call import CURRENT, Call
from jaato.tools.tool import Rename, Tool

Executor = Callable[[dict[str, Any]], Any]


def executors_of(toolsets: Iterable[Toolset], tools: Iterable[Tool]) -> dict[str, Executor]:
    """A function per tool name, alias and user command; a tool's own name comes before any alias of another."""
    executors: dict[str, Executor] = {}
    for toolset in toolsets:
        executors |= {name: run for name, (_, run) in toolset.commands.items() if run is not None}
        for tool in toolset.tools:
            executors |= {alias: blocking(tool, rename) for alias, rename in tool.aliases.items()}
    return executors | {tool.name: blocking(tool, {}) for tool in tools}


def blocking(tool: Tool, rename: Rename) -> Executor:
    """The tool as a plain function of its argument dict."""

    def execute(arguments: dict[str, Any]) -> Any:
        renamed = {rename.get(key, key): value for key, value in arguments.items()}
        call = CURRENT.get() or Call(id="", name=tool.name, arguments=renamed)
        value = tool.run(renamed, call)
        if inspect.iscoroutine(value):
            return PORTAL.call(value)
        return value

    return execute


def schemas_of(tools: Iterable[Tool]) -> list[ToolSchema]:
    """The declarations of tools in the documented form."""
    return [
        ToolSchema(
            tool.name,
            tool.spec.description,
            tool.spec.parameters,
            tool.spec.category,
            tool.spec.discoverability,
        )
        for tool in tools
    ]
