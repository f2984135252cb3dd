"""A server-first runtime for agents that use tools."""

from __future__ import annotations

from jaato.version import __version__ as __version__

TYPE_CHECKING = False  # as in typing, which costs as much to import as an interpreter to start

if TYPE_CHECKING:
    from jaato.abc.asker import Allow, AllowAlways, AllowTurn, Answer, Deny, DenyAlways, Question
    from jaato.abc.plugin import Host, Plugin, PromptEnrichmentResult, ToolPlugin, ToolSchema, UserCommand
    from jaato.abc.provider import Provider
    from jaato.abc.subagents import SubagentProfile
    from jaato.agent.retry import RetryPolicy
    from jaato.errors import (
        AuthenticationError,
        CancelledException,
        ConfigError,
        JaatoError,
        LimitReached,
        PermissionDenied,
        PluginError,
        ProviderError,
        RateLimited,
        SessionNotFound,
        StoreError,
        ToolError,
    )
    from jaato.protocol.messages import Message, Usage
    from jaato.protocol.specs import ModelInfo, ModelSettings, ToolSpec
    from jaato.runtime.embedding.agent import Agent
    from jaato.runtime.embedding.client import JaatoClient, JaatoRuntime, JaatoSession
    from jaato.runtime.embedding.executor import ToolExecutor
    from jaato.runtime.embedding.run_options import Model, RunOptions
    from jaato.runtime.embedding.structured_output import Result
    from jaato.runtime.flow.flow import Flow
    from jaato.runtime.flow.result import FlowRun, FlowStep
    from jaato.runtime.plugins.registry import PluginRegistry
    from jaato.tools.call import Call, Output
    from jaato.tools.cancel import CancelToken
    from jaato.tools.ledger import TokenLedger
    from jaato.tools.tool import Tool, tool

__all__ = [
    "Agent",
    "Allow",
    "AllowAlways",
    "AllowTurn",
    "Answer",
    "AuthenticationError",
    "Call",
    "CancelToken",
    "CancelledException",
    "ConfigError",
    "Deny",
    "DenyAlways",
    "Flow",
    "FlowRun",
    "FlowStep",
    "Host",
    "JaatoClient",
    "JaatoError",
    "JaatoRuntime",
    "JaatoSession",
    "LimitReached",
    "Message",
    "Model",
    "ModelInfo",
    "ModelSettings",
    "Output",
    "PermissionDenied",
    "Plugin",
    "PluginError",
    "PluginRegistry",
    "PromptEnrichmentResult",
    "Provider",
    "ProviderError",
    "Question",
    "RateLimited",
    "Result",
    "RetryPolicy",
    "RunOptions",
    "SessionNotFound",
    "StoreError",
    "SubagentProfile",
    "TokenLedger",
    "Tool",
    "ToolError",
    "ToolExecutor",
    "ToolPlugin",
    "ToolSchema",
    "ToolSpec",
    "Usage",
    "UserCommand",
    "tool",
]

HOMES = {
    "jaato.abc.asker": "Allow AllowAlways AllowTurn Answer Deny DenyAlways Question",
    "jaato.abc.plugin": "Host Plugin PromptEnrichmentResult ToolPlugin ToolSchema UserCommand",
    "jaato.abc.provider": "Provider",
    "jaato.abc.subagents": "SubagentProfile",
    "jaato.errors": "AuthenticationError CancelledException ConfigError JaatoError LimitReached PermissionDenied "
    "PluginError ProviderError RateLimited SessionNotFound StoreError ToolError",
    "jaato.agent.retry": "RetryPolicy",
    "jaato.protocol.messages": "Message Usage",
    "jaato.protocol.specs": "ModelInfo ModelSettings ToolSpec",
    "jaato.runtime.embedding.agent": "Agent",
    "jaato.runtime.embedding.client": "JaatoClient JaatoRuntime JaatoSession",
    "jaato.runtime.embedding.executor": "ToolExecutor",
    "jaato.runtime.flow.flow": "Flow",
    "jaato.runtime.flow.result": "FlowRun FlowStep",
    "jaato.runtime.plugins.registry": "PluginRegistry",
    "jaato.runtime.embedding.run_options": "Model RunOptions",
    "jaato.runtime.embedding.structured_output": "Result",
    "jaato.tools.call": "Call Output",
    "jaato.tools.cancel": "CancelToken",
    "jaato.tools.ledger": "TokenLedger",
    "jaato.tools.tool": "Tool tool",
}
"""Where each public name lives; it is imported when it is first asked for."""


if not TYPE_CHECKING:  # a type checker knows the names, and should complain about others

    def __getattr__(name: str) -> object:
        for home, names in HOMES.items():
            if name in names.split():
                import importlib

                value = getattr(importlib.import_module(home), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
