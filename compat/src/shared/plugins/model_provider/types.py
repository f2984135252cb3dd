"""The documented home of the types all providers and plugins share."""

from __future__ import annotations

from jaato.abc.plugin import ToolSchema
from jaato.errors import CancelledException
from jaato.protocol.messages import Message, Usage
from jaato.runtime.embedding.types import FinishReason, FunctionCall, Part, ProviderResponse, Role, ToolResult
from jaato.tools.cancel import CancelToken

__all__ = [
    "CancelToken",
    "CancelledException",
    "FinishReason",
    "FunctionCall",
    "Message",
    "Part",
    "ProviderResponse",
    "Role",
    "ToolResult",
    "ToolSchema",
    "Usage",
]
