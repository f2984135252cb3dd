"""Typed errors of model providers, from HTTP statuses, error bodies and transport failures; rate limits with their `Retry-After`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from jaato.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionFault,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.lazy_pattern import lazy_pattern
from jaato.providers.overflow import overflow_limit, overflow_size

MAX_SHOWN_CHARS = 600


class ErrorBody(Struct, frozen=True):
    """An error object: each vendor fills some of the fields, the rest is empty.

    `code` and `type` are words in lower case (a numeric code as its digits), `status` is Google's word for it,
    `number` an HTTP status given in the body; the message is one bounded line. `limit` and `tokens` are llama.cpp's numbers
    of a request that is too long.
    """

    message: str = ""
    code: str = ""
    type: str = ""
    status: str = ""
    number: int | None = None
    details: list[dict[str, Any]] = []
    limit: int | None = None
    tokens: int | None = None


def read_error_body(body: bytes) -> ErrorBody:
    """Parse an error body; the message of an unknown form is its text."""
    try:
        fault = parse_error_body(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fault = ErrorBody()
    if fault.message:
        return fault
    text = clip(body[: 4 * MAX_SHOWN_CHARS].decode("utf-8", "replace"))
    return msgspec.structs.replace(fault, message=text)


def parse_error_body(value: Any) -> ErrorBody:
    """Parse a JSON value as an error: an object, one under `error`, text under it, or any of these in a list."""
    if isinstance(value, list) and value:
        value = value[0]
    outer = value if isinstance(value, dict) else {"error": value}
    inner = outer.get("error")
    fields = inner if isinstance(inner, dict) else outer
    candidates = (
        fields.get("message"),
        inner,
        fields.get("error"),
        fields.get("detail"),
        outer.get("message"),
    )
    code = fields.get("code", fields.get("status"))
    number = int(code) if isinstance(code, (int, str)) and is_status(str(code)) else None
    details = fields.get("details")
    return ErrorBody(
        message=clip(next((text for text in candidates if isinstance(text, str) and text), "")),
        code=str(fields.get("code") or "").lower(),
        type=str(fields.get("type") or "").lower(),
        status=str(fields.get("status") or ""),
        number=number,
        details=[item for item in details if isinstance(item, dict)] if isinstance(details, list) else [],
        limit=positive(fields.get("n_ctx")),
        tokens=positive(fields.get("n_prompt_tokens")),
    )


def positive(value: Any) -> int | None:
    """A count, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def is_status(text: str) -> bool:
    """Whether a code is an HTTP status that stands for a failure."""
    return len(text) == 3 and text.isascii() and text.isdecimal() and "400" <= text < "600"


def clip(text: str) -> str:
    """Untrusted text on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARS else line[:MAX_SHOWN_CHARS] + " …"


LEAST_SECRET_CHARS = 8
LONG_WAIT_S = 60.0

MEANINGS: dict[type[ProviderError], str] = {
    AuthenticationError: "refused the key",
    ModelNotFound: "does not know the model or the path; see `jaato models`, or check the base URL",
    InvalidRequest: "refused the request",
    ContextOverflow: "says that the conversation no longer fits the model",
    ContentRefused: "stopped the content by its policy",
    RateLimited: "asks to slow down",
    ServerFault: "is failing or overloaded",
    ProviderError: "will not answer; check the account, its credit and the address",
}
"""What each error means of a provider, in words that follow its name."""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait that `retry-after-ms` or `Retry-After` (seconds or an HTTP date) asks for, or None."""
    exact = headers.get("retry-after-ms", "")
    if is_number(exact):
        return float(exact) / 1000
    from email.utils import parsedate_to_datetime

    text = headers.get("retry-after", "").strip()
    if is_number(text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def is_number(text: str) -> bool:
    """Whether a header is a plain decimal number of bounded length."""
    return len(text) <= 12 and text.replace(".", "", 1).isdecimal() and text.isascii()


def describe_error(kind: type[ProviderError], provider: str, message: str, status: int | None) -> str:
    """What a provider's refusal means: who, what, the status and the provider's own words."""
    number = f" ({status})" if status else ""
    detail = f": {message}" if message else "."
    return f"{provider} {MEANINGS.get(kind, 'could not answer')}{number}{detail}"


def redirect_error(place: str, status: int, target: str, provider: str) -> ProviderError:
    """A redirect, which is never followed: the key and the conversation go to the named host alone."""
    return ProviderError(
        f"{place} answered {status} and points to {target or 'nowhere'}. It was not followed: "
        "the key and the conversation go where the settings say; if that is right, make it the base URL.",
        provider=provider,
        status=status,
    )


def not_a_stream(place: str, what: str, provider: str, beginning: bytes = b"") -> MalformedReply:
    """An answer that is no stream of a model: a login page, a proxy's notice, another service, a coding not asked for."""
    text = f": {clip(beginning[:200].decode('utf-8', 'replace'))!r}" if beginning else ""
    return MalformedReply(
        f"{place} {what} where a model's stream was expected{text}. A proxy or another service may be answering; "
        "check the base URL and the proxy settings.",
        provider=provider,
        status=200,
    )


def transport_error(
    error: Exception, place: str, provider: str, proxy: str | None, timeouts: str
) -> ProviderError:
    """A transport exception as a typed error naming where it happened and what to look at."""
    import ssl

    import httpcore2

    via = f" through the proxy {proxy}" if proxy else ""
    reason = str(error).rstrip(".") or type(error).__name__
    match error:
        case httpcore2.ConnectTimeout() | httpcore2.PoolTimeout():
            text = f"{place} did not accept a connection{via} in time ({timeouts})."
        case httpcore2.TimeoutException():
            text = (
                f"{place} was silent for too long ({timeouts}); the model may be overloaded or the line dead."
            )
        case httpcore2.ProxyError():
            text = (
                f"The proxy {proxy} refused to connect to {place}: {clip(reason)}. "
                "Check HTTPS_PROXY and NO_PROXY."
            )
        case httpcore2.ConnectError() if is_certificate(error):
            text = (
                f"{place} showed a certificate that is not believed{via}: {clip(reason)}. "
                "If a private authority signed it, name its PEM file in SSL_CERT_FILE."
            )
        case httpcore2.ConnectError() | ssl.SSLError():
            text = (
                f"No connection to {place}{via}: {clip(reason)}. "
                "Check that the server runs, the base URL, the network and the proxy settings."
            )
        case httpcore2.RemoteProtocolError() if (
            "disconnect" not in reason and "closed connection" not in reason
        ):
            return MalformedReply(
                f"{place} does not speak HTTP as expected{via}: {clip(reason)}. Check the base URL.",
                provider=provider,
            )
        case _:
            text = f"The connection to {place}{via} was cut: {clip(reason)}."
    return ConnectionFault(text, provider=provider)


def transport_errors() -> tuple[type[Exception], ...]:
    """The exceptions that talking to a server may raise: the transport's, the codec's and our own."""
    import httpcore2

    return (
        ProviderError,
        ConfigError,
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.UnsupportedProtocol,
        anyio.BrokenResourceError,
        anyio.ClosedResourceError,
        OSError,
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
    )


def is_certificate(error: BaseException | None) -> bool:
    """Whether a failed certificate check is the reason, anywhere in the chain of causes."""
    import ssl

    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def end_sentence(text: str) -> str:
    """Words that others can follow."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def format_wait(seconds: float) -> str:
    """A long duration in its natural unit."""
    for size_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def redact_key(key: str | None, text: str) -> str:
    """A text that does not show the key; what is shorter than any secret (`ollama`, `x`) may be an ordinary word."""
    return text if key is None or len(key) < LEAST_SECRET_CHARS else text.replace(key, "[key]")


def add_wait(error: ProviderError) -> ProviderError:
    """The error, whose message names the wait the server asked for (`Retry-After`) where that is longer than a minute."""
    if error.retry_after_s is not None and error.retry_after_s > LONG_WAIT_S:
        error.args = (f"{end_sentence(str(error))} It asks to wait {format_wait(error.retry_after_s)}.",)
    return error


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

OVERFLOWS = lazy_pattern(
    r"context (length|window|size|limit)|context the overflows|prompt (is )?too long|input is too long"
    r"|maximum (model|prompt|input) length|input length .*exceeds|maximum number of tokens allowed"
    r"|(input|prompt) token count|too many (input )?tokens|model token limit|reduce the length"
    r"|`?max_new_tokens`? must be <=|request body too large"
)
"""Phrases of servers, in lower case, when a conversation no longer fits: words differ less than codes."""

UNPAID = lazy_pattern(
    r"credit balance|used all available credits|spending limit|insufficient (balance|credits|funds)"
)
"""Phrases of servers when the account is empty: no wait helps."""

UNKNOWN_MODEL = lazy_pattern(
    r"model.*(not a valid model|does not exist|not found)|unknown model|not a valid model"
)


def status_error(provider: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The typed error for an HTTP status and its body, with the wait that either asks for."""
    fault = read_error_body(body)
    error = to_error(fault, provider, status)
    error.retry_after_s = retry_delay_s(fault.details) or retry_after_s(headers)
    return error


def stream_error(provider: str, found: Any) -> ProviderError:
    """The typed error for an error object inside a stream or an answer that called itself a success."""
    fault = parse_error_body(found)
    error = to_error(fault, provider, fault.number, otherwise=clip(repr(found)))
    error.retry_after_s = retry_delay_s(fault.details)
    return error


def to_error(fault: ErrorBody, provider: str, status: int | None, otherwise: str = "") -> ProviderError:
    """An error that says who, what and why."""
    kind = error_class(fault, status)
    words = fault.message or fault.status or fault.type or otherwise
    error = kind(describe_error(kind, provider, words, status), provider=provider, status=status)
    if isinstance(error, ContextOverflow):
        error.limit = fault.limit or overflow_limit(words)
        error.tokens = fault.tokens or overflow_size(words)
    return error


def error_class(fault: ErrorBody, status: int | None) -> type[ProviderError]:
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


def names_key(fault: ErrorBody) -> bool:
    """Whether Google's details say that the key is wrong."""
    return any(str(detail.get("reason")).startswith("API_KEY_") for detail in fault.details)


def is_spent(fault: ErrorBody) -> bool:
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


def make_malformed_event(provider: str, data: bytes, why: object) -> MalformedReply:
    """An event that is not what the protocol promises, naming what came."""
    text = clip(data[:300].decode("utf-8", "replace"))
    return MalformedReply(
        f"{provider} sent something that is not understood ({why}): {text!r}", provider=provider
    )


def broken_stream(what: str) -> MalformedReply:
    """The error for a stream that breaks the protocol, by what it did."""
    return MalformedReply(f"The server sent {what}; the answer was dropped and can be asked again.")
