"""The errors of MCP servers and of calls to them."""

from __future__ import annotations

from jaato.errors import ToolError


class ServerFault(ToolError):
    """A server cannot be started, has ended, or does not answer as it should."""

    code = "mcp_server_failed"
    retryable = True


class CallLost(ServerFault):
    """A call was sent and its answer was lost: it may have been carried out."""

    code = "mcp_call_lost"
    retryable = False


class SessionForgotten(ServerFault):
    """The server does not know the session and did nothing for the request: a new session is started."""


class ServerRefusal(ToolError):
    """The server answered a request with an error, or a tool says that it failed."""

    code = "mcp_call_failed"


class ServerUnusable(ToolError):
    """A server that may not be started: not trusted, no login, not configured."""

    code = "mcp_server_unusable"


class DefinitionHeld(ServerUnusable):
    """A tool's definition is not what was accepted, so it is not called."""

    code = "mcp_definition_held"
