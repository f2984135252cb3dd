"""The events of the Anthropic Messages stream and the errors it names, as data."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from jaato.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.providers import faults

DIALECT = "anthropic"
ERRORS: dict[str, type[ProviderError]] = {
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "billing_error": AuthenticationError,
    "not_found_error": ModelNotFound,
    "request_too_large": ContextOverflow,
    "rate_limit_error": RateLimited,
    "overloaded_error": ServerFault,
    "api_error": ServerFault,
    "timeout_error": ServerFault,
    "invalid_request_error": InvalidRequest,
}


class Fault(Struct):
    type: str = ""
    message: str = ""


class Detail(Struct):
    thinking_tokens: int | None = None


class Counts(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: Detail | None = None


class Started(Struct):
    model: str | None = None
    usage: Counts | None = None


class StopDetails(Struct):
    explanation: str | None = None


class Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Opened(Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    id: str | None = None
    name: str = ""
    input: Raw = Raw(b"{}")


class Event(Struct):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: Raw = Raw()
    message: Started | str | None = None
    usage: Counts | None = None
    error: Fault | None = None


EVENTS = msgspec.json.Decoder(Event)
OPENED = msgspec.json.Decoder(Opened)


def error_of(kind: str, message: str, provider: str) -> ProviderError:
    """The typed error for an error object inside a stream."""
    cls = ERRORS.get(kind, ServerFault)
    return cls(faults.told(cls, provider, faults.clip(message) or kind, None), provider=provider)
