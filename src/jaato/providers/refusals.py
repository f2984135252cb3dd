"""What a server refuses, as typed errors: one reading of codes, words and statuses for every dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
from jaato.providers.error_body import Fault, clip, fault_of, read_fault
from jaato.providers.faults import retry_after_s, told

KINDS: dict[str, type[ProviderError]] = {
    "context_length_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "model_context_window_exceeded": ContextOverflow,
    "request_too_large": ContextOverflow,
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
    "not_found_error": ModelNotFound,
    "not_found": ModelNotFound,
    "invalid_api_key": AuthenticationError,
    "authentication_error": AuthenticationError,
    "permission_error": AuthenticationError,
    "unauthenticated": AuthenticationError,
    "permission_denied": AuthenticationError,
    "insufficient_quota": ProviderError,
    "billing_hard_limit_reached": ProviderError,
    "billing_error": ProviderError,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "resource_exhausted": RateLimited,
    "server_error": ServerFault,
    "internal_error": ServerFault,
    "overloaded_error": ServerFault,
    "server_is_overloaded": ServerFault,
    "slow_down": ServerFault,
    "vector_store_timeout": ServerFault,
    "api_error": ServerFault,
    "timeout_error": ServerFault,
    "internal": ServerFault,
    "unavailable": ServerFault,
    "deadline_exceeded": ServerFault,
    "cancelled": ServerFault,
    "aborted": ServerFault,
    "unknown": ServerFault,
    "invalid_request_error": InvalidRequest,
    "invalid_argument": InvalidRequest,
    "failed_precondition": InvalidRequest,
    "out_of_range": InvalidRequest,
}
"""What a `code`, a `type` or a Google `status` means, in lower case."""

OVERFLOWS = re.compile(
    r"context (length|window|size|limit)|context the overflows|prompt (is )?too long|input is too long"
    r"|maximum (model|prompt|input) length|input length .*exceeds|maximum number of tokens allowed"
    r"|(input|prompt) token count|too many (input )?tokens|model token limit|reduce the length"
    r"|`?max_new_tokens`? must be <=|request body too large"
)
"""What servers say, in lower case, when a conversation no longer fits: words differ less than codes."""

UNPAID = re.compile(
    r"credit balance|used all available credits|spending limit|insufficient (balance|credits|funds)"
)
"""What servers say when the account is empty: no wait helps."""

UNKNOWN_MODEL = re.compile(
    r"model.*(not a valid model|does not exist|not found)|unknown model|not a valid model"
)


def status_error(provider: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The typed error for an HTTP status and its body, with the wait that either asks for."""
    fault = read_fault(body)
    error = made(fault, provider, status)
    error.retry_after_s = retry_delay_s(fault.details) or retry_after_s(headers)
    return error


def stream_error(provider: str, found: Any) -> ProviderError:
    """The typed error for an error object inside a stream or an answer that called itself a success."""
    fault = fault_of(found)
    error = made(fault, provider, fault.number, otherwise=clip(repr(found)))
    error.retry_after_s = retry_delay_s(fault.details)
    return error


def made(fault: Fault, provider: str, status: int | None, otherwise: str = "") -> ProviderError:
    """An error that says who, what and why."""
    kind = kind_of(fault, status)
    words = fault.message or fault.status or fault.type or otherwise
    return kind(told(kind, provider, words, status), provider=provider, status=status)


def kind_of(fault: Fault, status: int | None) -> type[ProviderError]:
    """The class of an error by its code, its words, its type and its status, in this order."""
    message = fault.message.lower()
    by_code = KINDS.get(fault.code)
    by_type = KINDS.get(fault.status.lower()) or KINDS.get(fault.type)
    vague = by_type in (None, InvalidRequest, ServerFault)
    if status == 413 or (status == 429 and "request too large" in message):
        return ContextOverflow  # some call it a rate limit, but no wait makes the request smaller
    if by_code is not None and by_code is not InvalidRequest:
        return by_code
    if status in (None, 400, 422, 500) and vague and OVERFLOWS.search(message):
        return ContextOverflow
    if status == 402 or (status in (None, 400, 403, 429) and UNPAID.search(message)) or is_spent(fault):
        return ProviderError
    if status == 400 and vague and ("api key" in message or names_key(fault)):
        return AuthenticationError
    if status == 400 and vague and UNKNOWN_MODEL.search(message):
        return ModelNotFound
    if by_type is not None and (by_type is not InvalidRequest or status is None):
        return by_type
    return status_class(status) if status is not None else by_code or ServerFault


def status_class(status: int) -> type[ProviderError]:
    """The error an HTTP status stands for when the body says nothing more exact."""
    match status:
        case 401 | 403:
            return AuthenticationError
        case 404:
            return ModelNotFound
        case 429:
            return RateLimited
        case 408 | 409 | 425:
            return ServerFault
        case _ if status >= 500:
            return ServerFault
        case _ if status >= 400:
            return InvalidRequest
    return ProviderError


def names_key(fault: Fault) -> bool:
    """Whether Google's details say that the key is wrong."""
    return any(str(detail.get("reason")).startswith("API_KEY_") for detail in fault.details)


def is_spent(fault: Fault) -> bool:
    """Whether a quota is used up that no short wait fills: one of a day, or one of nothing at all."""
    if fault.status != "RESOURCE_EXHAUSTED":
        return False
    quotas = [quota for detail in fault.details for quota in detail.get("violations") or ()]
    ids = " ".join([str(quota.get("quotaId")) for quota in quotas if isinstance(quota, dict)])
    return "PerDay" in ids or re.search(r"limit: 0\b", fault.message) is not None


def retry_delay_s(details: Sequence[dict[str, Any]]) -> float | None:
    """The wait in seconds that a `RetryInfo` detail asks for."""
    for detail in details:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)s", str(detail.get("retryDelay")))
        if found:
            return float(found[1])
    return None


def malformed(provider: str, data: bytes, why: object) -> MalformedReply:
    """An event that is not what the protocol promises, naming what came."""
    text = clip(data[:300].decode("utf-8", "replace"))
    return MalformedReply(
        f"{provider} sent something that is not understood ({why}): {text!r}", provider=provider
    )


def broken(what: str) -> MalformedReply:
    """The error for a stream that breaks the protocol, by what it did."""
    return MalformedReply(f"The server sent {what}; the answer was dropped and can be asked again.")
