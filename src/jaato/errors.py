"""Every error jaato raises, as one tree; each has a code, says whether a retry can help, and what to do next."""

from __future__ import annotations

from typing import Any, ClassVar


class JaatoError(Exception):
    """Any error of jaato's own; `str(error)` says what happened and what to do."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class ConfigError(JaatoError):
    """A setting, flag or file is missing or wrong."""

    code = "config_invalid"
    exit_code = 2


class PluginError(ConfigError):
    """A plugin cannot be loaded, initialised or exposed."""

    code = "plugin_invalid"


class ProviderMissing(ConfigError):
    """No provider is set up: there is no key, no Ollama, and no embedded model."""

    code = "provider_missing"


class StoreError(JaatoError):
    """The session store cannot be read or written."""

    code = "store_failed"


class StoreReadOnly(StoreError):
    """The store cannot be written: a newer jaato made it, or the disk refuses."""

    code = "store_read_only"


class StoreFull(StoreReadOnly):
    """The disk has no room, or refuses for now; worth trying again once there is space."""

    code = "store_full"
    retryable = True


class SessionNotFound(StoreError):
    """No session has this id, prefix or name, or several have."""

    code = "session_not_found"
    exit_code = 2
    several: bool = False


class SessionBusy(StoreError):
    """Another process appended to this session since it was opened."""

    code = "session_busy"


class Overloaded(JaatoError):
    """The server has as much at hand, or does as much for this client, as it can; try again later."""

    code = "overloaded"
    retryable = True


class NotAllowed(JaatoError):
    """The client's role does not allow this."""

    code = "not_allowed"
    exit_code = 4


class ToolError(JaatoError):
    """A call failed in a way the model should know about. `ask` is what only the user can do about it, in the imperative:
    the model reads that it has to ask for it, and `for_user` is the same text addressed to the user."""

    code = "tool_failed"

    def __init__(self, message: object = "", *, ask: str = "") -> None:
        super().__init__(f"{message} Ask the user to {ask}" if ask else message)
        self._addressed = f"{message} {ask[:1].upper()}{ask[1:]}" if ask else ""

    @property
    def for_user(self) -> str:
        """The message as it is worded for the user, who has run the command that failed."""
        return self._addressed or str(self)


class UnknownTool(ToolError):
    """The name is not registered."""

    code = "tool_unknown"


class ToolInactive(ToolError):
    """The tool is discoverable and its schema was not asked for yet."""

    code = "tool_inactive"


class ToolDisabled(ToolError):
    """The tool was switched off after it had been declared."""

    code = "tool_disabled"


class Mismatch(tuple[str, str]):  # noqa: SLOT001 a tuple can have none
    """An issue, which unpacks as (path, message) like any other, with what the schema expects there and what there is: JSON
    types, or limits and lengths."""

    expected: Any
    actual: Any

    def __new__(cls, path: str, message: str, expected: Any, actual: Any) -> Mismatch:
        """Create the pair with its two attributes."""
        issue = super().__new__(cls, (path, message))
        issue.expected, issue.actual = expected, actual
        return issue


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's schema; `issues` has every (path, message)."""

    code = "arguments_invalid"

    def __init__(self, message: str, issues: list[tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.issues = issues or []


class PermissionDenied(ToolError):
    """A policy or a user denied the call, or no user could be asked."""

    code = "permission_denied"
    exit_code = 4


class ToolTimeout(ToolError):
    """The call did not finish in its time."""

    code = "tool_timeout"


class ProviderError(JaatoError):
    """A model provider could not answer; `provider` names it and `status` is the HTTP status, if any."""

    code = "provider_failed"
    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after_s = retry_after_s


class AuthenticationError(ProviderError):
    """The key is missing, wrong or not allowed to do this."""

    code = "provider_authentication"


class ModelNotFound(ProviderError):
    """The provider does not know this model."""

    code = "model_not_found"


class InvalidRequest(ProviderError):
    """The provider refused the request as malformed."""

    code = "provider_invalid_request"


class ContextOverflow(ProviderError):
    """The conversation no longer fits the model's context window: `limit` and `tokens` are the window's size and the
    request's, as far as the provider's message names them."""

    code = "context_overflow"
    limit: int | None = None
    tokens: int | None = None


class ContentRefused(ProviderError):
    """A safety filter stopped the request or the reply."""

    code = "content_refused"


class RateLimited(ProviderError):
    """Too many requests; `retry_after_s` is what the server asked for, if it did."""

    code = "rate_limited"
    retryable = True


class ServerFault(ProviderError):
    """The provider is failing or overloaded."""

    code = "provider_unavailable"
    retryable = True


class ConnectionFault(ProviderError):
    """No connection, a broken stream, or a timeout."""

    code = "provider_unreachable"
    retryable = True


class ServerGone(ConnectionFault):
    """No server of sessions answers, or the connection to it was lost."""

    code = "server_unreachable"
    exit_code = 1


class MalformedReply(ProviderError):
    """The reply is not what the protocol promises."""

    code = "provider_malformed_reply"
    retryable = True


class LimitReached(JaatoError):
    """A limit on turns, calls or tokens ended the work."""

    code = "limit_reached"
    exit_code = 5


class CancelledException(JaatoError):  # the documented name
    """The operation was cancelled on request."""

    code = "cancelled"
    exit_code = 130


def from_code(code: str, message: str) -> JaatoError:
    """The error of this code again, as when it crossed a log or a wire; a plain one when the code is not ours."""
    waiting: list[type[JaatoError]] = [JaatoError]
    while waiting:
        kind = waiting.pop()
        if kind.code == code:
            return kind(message)
        waiting += kind.__subclasses__()
    return JaatoError(message)
