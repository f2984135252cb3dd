"""Errors of sessions as errors of JSON-RPC, with the words of what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from acp.exceptions import RequestError

from jaato.cli.output.console import printable
from jaato.errors import AuthenticationError, ConfigError, JaatoError, ProviderMissing, SessionNotFound

INVALID_PARAMS, INTERNAL, AUTH_REQUIRED, NOT_FOUND = -32602, -32603, -32000, -32002
ENVIRONMENT = (
    "Keys can be in the environment that the editor gives its agents; `jaato doctor` shows what is found."
)
LOGIN = (
    "Run `jaato login PROVIDER` in a terminal, or set the key of a provider (such as ANTHROPIC_API_KEY) in the "
    "environment that the editor gives its agents; `jaato doctor` shows what is found."
)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def request_error(error: JaatoError) -> RequestError:
    """The error that a request is answered with."""
    text = printable(str(error))
    match error:
        case ProviderMissing():  # its text names the ways to set one up
            code, text = AUTH_REQUIRED, f"{text.rstrip('.')}. {ENVIRONMENT}"
        case AuthenticationError():
            code, text = AUTH_REQUIRED, f"{text.rstrip('.')}. {LOGIN}"
        case SessionNotFound():
            code = NOT_FOUND
        case ConfigError():
            code = INVALID_PARAMS
        case _:
            code = INTERNAL
    return RequestError(code, text, {"code": error.code, "retryable": error.retryable})


def invalid_params(text: str) -> RequestError:
    """The error for parameters that cannot be used."""
    return RequestError(INVALID_PARAMS, text)


def map_errors(
    method: Callable[Parameters, Awaitable[Result]],
) -> Callable[Parameters, Awaitable[Result]]:
    """A method of the agent whose errors are those of JSON-RPC."""

    @wraps(method)
    async def mapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await method(*args, **kwargs)
        except JaatoError as error:
            raise request_error(error) from None

    return mapped
