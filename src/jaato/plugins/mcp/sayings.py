"""What a server or its connection said in failing, as sentences."""

from __future__ import annotations

import asyncio
import logging

from mcp.shared.exceptions import MCPError

from jaato.errors import JaatoError

logging.getLogger("mcp").addHandler(logging.NullHandler())
"""The SDK logs what strangers send, as they send it; without a handler that would be written to the terminal."""


def first_line(error: Exception) -> str:
    """An error of the SDK's, shortened."""
    return " ".join(str(error).split())[:300]


def refusal(error: MCPError) -> str:
    """What a server said in refusing."""
    data = error.error.data
    more = f" ({str(data)[:500]})" if data else ""
    return f"{error.message[:2000]}{more}"


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group that is no cancellation."""
    for error in group.exceptions:
        inner = first_of(error) if isinstance(error, BaseExceptionGroup) else error
        if not isinstance(inner, asyncio.CancelledError):
            return inner
    return group.exceptions[0]


def said_by(error: BaseException) -> str:
    """An exception as a sentence."""
    match error:
        case JaatoError():
            return str(error)
        case MCPError():
            return f"It answered: {refusal(error)}."
    return (
        f"{type(error).__name__}: {first_line(error)}." if isinstance(error, Exception) else "It was stopped."
    )
