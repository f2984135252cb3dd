"""A server-first runtime for agents that use tools.

Every public name is here and loaded when it is first used, so that `import jaato` stays cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would double what `import jaato` costs
if TYPE_CHECKING:
    from jaato.abc.plugin import Host, Plugin, PromptEnrichmentResult, ToolPlugin, ToolSchema, UserCommand
    from jaato.abc.provider import Provider
    from jaato.agent.retry import RetryPolicy
    from jaato.errors import CancelledException, JaatoError
    from jaato.protocol.messages import Message, Usage
    from jaato.runtime.agent import Agent, Result
    from jaato.runtime.embed import JaatoClient, JaatoRuntime, JaatoSession
    from jaato.runtime.executor import ToolExecutor
    from jaato.runtime.registry import PluginRegistry
    from jaato.tools.call import Call, Output
    from jaato.tools.cancel import CancelToken
    from jaato.tools.ledger import TokenLedger
    from jaato.tools.tool import Tool, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Call",
    "CancelToken",
    "CancelledException",
    "Host",
    "JaatoClient",
    "JaatoError",
    "JaatoRuntime",
    "JaatoSession",
    "Message",
    "Output",
    "Plugin",
    "PluginRegistry",
    "PromptEnrichmentResult",
    "Provider",
    "Result",
    "RetryPolicy",
    "TokenLedger",
    "Tool",
    "ToolExecutor",
    "ToolPlugin",
    "ToolSchema",
    "Usage",
    "UserCommand",
    "__version__",
    "tool",
]

HOMES = {
    "jaato.abc.plugin": "Host Plugin PromptEnrichmentResult ToolPlugin ToolSchema UserCommand",
    "jaato.abc.provider": "Provider",
    "jaato.agent.retry": "RetryPolicy",
    "jaato.errors": "CancelledException JaatoError",
    "jaato.protocol.messages": "Message Usage",
    "jaato.runtime.agent": "Agent Result",
    "jaato.runtime.embed": "JaatoClient JaatoRuntime JaatoSession",
    "jaato.runtime.executor": "ToolExecutor",
    "jaato.runtime.registry": "PluginRegistry",
    "jaato.tools.call": "Call Output",
    "jaato.tools.cancel": "CancelToken",
    "jaato.tools.ledger": "TokenLedger",
    "jaato.tools.tool": "Tool tool",
}


if not TYPE_CHECKING:  # a type checker knows the names, and should complain about others

    def __getattr__(name: str) -> object:
        for module, names in HOMES.items():
            if name in names.split():
                import importlib

                value = getattr(importlib.import_module(module), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'jaato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
