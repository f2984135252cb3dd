"""What the Google APIs say when they refuse, as typed errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

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

STATUSES: dict[str, type[ProviderError]] = {
    "UNAUTHENTICATED": AuthenticationError,
    "PERMISSION_DENIED": AuthenticationError,
    "NOT_FOUND": ModelNotFound,
    "RESOURCE_EXHAUSTED": RateLimited,
    "INTERNAL": ServerFault,
    "UNAVAILABLE": ServerFault,
    "DEADLINE_EXCEEDED": ServerFault,
    "CANCELLED": ServerFault,
    "ABORTED": ServerFault,
    "UNKNOWN": ServerFault,
    "INVALID_ARGUMENT": InvalidRequest,
    "FAILED_PRECONDITION": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
}


class Fault(Struct):
    """An error object: a status word, a message and typed details."""

    code: int | None = None
    message: str = ""
    status: str = ""
    details: list[dict[str, Any]] | None = None


def typed(fault: Fault, provider: str, status: int, wait_s: float | None) -> ProviderError:
    """The error for an error object; `wait_s` is what the headers asked for."""
    message, details = fault.message, fault.details or []
    cls = STATUSES.get(fault.status) or faults.status_class(status)
    reasons = {str(detail.get("reason")) for detail in details}
    if cls is InvalidRequest and (
        reasons & {"API_KEY_INVALID", "API_KEY_EXPIRED"} or "api key" in message.lower()
    ):
        cls = AuthenticationError
    elif cls is InvalidRequest and faults.means_overflow(message):
        cls = ContextOverflow
    return cls(
        faults.told(cls, provider, faults.clip(message) or fault.status, status),
        provider=provider,
        status=status,
        retry_after_s=retry_delay_s(details) or wait_s,
    )


def retry_delay_s(details: Sequence[dict[str, Any]]) -> float | None:
    """The wait in seconds that a `RetryInfo` detail asks for."""
    for detail in details:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)s", str(detail.get("retryDelay")))
        if found:
            return float(found[1])
    return None
