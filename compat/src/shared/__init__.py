"""The documented import path `shared`: the names of jaato that programs embed it with."""

from __future__ import annotations

from jaato.abc.compactor import GCConfig
from jaato.abc.plugin import PromptEnrichmentResult, ToolPlugin, ToolSchema, UserCommand
from jaato.agent.retry import RetryCallback, interruptible_sleep, with_retry
from jaato.errors import CancelledException
from jaato.runtime.embedding.client import JaatoClient, JaatoRuntime, JaatoSession
from jaato.runtime.embedding.executor import ToolExecutor, get_current_tool_output_callback
from jaato.runtime.embedding.hooks import AgentUIHooks
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.tools.cancel import CancelToken
from jaato.tools.ledger import TokenLedger

__all__ = [
    "AgentUIHooks",
    "CancelToken",
    "CancelledException",
    "GCConfig",
    "JaatoClient",
    "JaatoRuntime",
    "JaatoSession",
    "PluginRegistry",
    "PromptEnrichmentResult",
    "RetryCallback",
    "TokenLedger",
    "ToolExecutor",
    "ToolPlugin",
    "ToolSchema",
    "UserCommand",
    "get_current_tool_output_callback",
    "interruptible_sleep",
    "with_retry",
]
