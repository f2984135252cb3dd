"""The errors of servers that speak like OpenAI, as typed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jaato.errors import (
    AuthenticationError,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.providers.faults import body_message, clip, means_overflow, status_class, told

BY_CODE: dict[str, type[ProviderError]] = {
    "context_length_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "tokens_limit_reached": ContextOverflow,
    "content_filter": ContentRefused,
    "content_policy_violation": ContentRefused,
    "image_content_policy_violation": ContentRefused,
    "cyber_policy": ContentRefused,
    "bio_policy": ContentRefused,
    "invalid_prompt": ContentRefused,
    "misalignment_policy_violation": ContentRefused,
    "model_not_found": ModelNotFound,
    "unknown_model": ModelNotFound,
    "invalid_api_key": AuthenticationError,
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "insufficient_quota": ProviderError,
    "billing_hard_limit_reached": ProviderError,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "server_error": ServerFault,
    "internal_error": ServerFault,
    "overloaded_error": ServerFault,
    "server_is_overloaded": ServerFault,
    "slow_down": ServerFault,
    "vector_store_timeout": ServerFault,
    "invalid_request_error": InvalidRequest,
}
"""What a `code` or `type` means; looked up in this order of fields: code, then type."""


def status_error(provider: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The typed error for an HTTP status and its body."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    if isinstance(value, list) and value:
        value = value[0]
    found = value.get("error") if isinstance(value, dict) else None
    fields = found if isinstance(found, dict) else value if isinstance(value, dict) else {}
    kind = kind_of(fields, body_message(body), status)
    return made(kind, provider, body_message(body), status)


def stream_error(provider: str, found: Any) -> ProviderError:
    """The typed error for an error object inside a stream or an answer that called itself a success."""
    fields = found if isinstance(found, dict) else {}
    message = fields.get("message") if fields else found
    text = clip(message) if isinstance(message, str) and message else clip(repr(found))
    code = fields.get("code", fields.get("status"))
    status = (
        int(code)
        if isinstance(code, (int, str)) and str(code).isdecimal() and 400 <= int(code) < 600
        else None
    )
    return made(kind_of(fields, text, status), provider, text, status)


def kind_of(fields: Mapping[str, Any], message: str, status: int | None) -> type[ProviderError]:
    """The class of an error by its code, its words, its type and its status, in this order."""
    if status == 413:
        return ContextOverflow  # some call it a rate limit, but no wait makes the request smaller
    by_code = BY_CODE.get(str(fields.get("code")).lower())
    by_type = BY_CODE.get(str(fields.get("type")).lower())
    if by_code is not None and by_code is not InvalidRequest:
        return by_code
    if status in (None, 400, 413, 422, 500) and means_overflow(message):
        return ContextOverflow
    if status == 402:
        return ProviderError
    if (
        status == 400
        and "model" in message.lower()
        and any(
            words in message.lower()
            for words in ("not a valid model", "does not exist", "not found", "unknown model")
        )
    ):
        return ModelNotFound
    if by_type is not None and (by_type is not InvalidRequest or status is None):
        return by_type
    if status is not None:
        return status_class(status)
    return by_code or ServerFault


def made(kind: type[ProviderError], provider: str, message: str, status: int | None) -> ProviderError:
    """An error that says who, what and why."""
    return kind(told(kind, provider, message, status), provider=provider, status=status)


def malformed(provider: str, data: bytes, why: object) -> MalformedReply:
    """An event that is not what the protocol promises, naming what came."""
    text = clip(data[:300].decode("utf-8", "replace"))
    return MalformedReply(
        f"{provider} sent something that is not understood ({why}): {text!r}", provider=provider
    )
