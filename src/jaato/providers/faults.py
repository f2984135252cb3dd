"""What goes wrong on the way to a model, as typed errors that say what to do."""

from __future__ import annotations

import time
from collections.abc import Mapping

import anyio
import msgspec

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
from jaato.providers.error_body import clip

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


def told(kind: type[ProviderError], provider: str, message: str, status: int | None) -> str:
    """What a provider's refusal means: who, what, the status and the provider's own words."""
    number = f" ({status})" if status else ""
    said = f": {message}" if message else "."
    return f"{provider} {MEANINGS.get(kind, 'could not answer')}{number}{said}"


def redirected(place: str, status: int, target: str, provider: str) -> ProviderError:
    """A redirect, which is never followed: the key and the conversation go to the named host alone."""
    return ProviderError(
        f"{place} answered {status} and points to {target or 'nowhere'}. It was not followed: "
        "the key and the conversation go where the settings say; if that is right, make it the base URL.",
        provider=provider,
        status=status,
    )


def no_stream(place: str, what: str, provider: str, beginning: bytes = b"") -> MalformedReply:
    """An answer that is no stream of a model: a login page, a proxy's notice, another service, a coding not asked for."""
    text = f": {clip(beginning[:200].decode('utf-8', 'replace'))!r}" if beginning else ""
    return MalformedReply(
        f"{place} {what} where a model's stream was expected{text}. A proxy or another service may be answering; "
        "check the base URL and the proxy settings.",
        provider=provider,
        status=200,
    )


def transport_fault(
    error: Exception, place: str, provider: str, proxy: str | None, timeouts: str
) -> ProviderError:
    """A transport exception as a typed error naming where it happened and what to look at."""
    import ssl

    import httpx2

    via = f" through the proxy {proxy}" if proxy else ""
    reason = str(error).rstrip(".") or type(error).__name__
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            text = f"{place} did not accept a connection{via} in time ({timeouts})."
        case httpx2.TimeoutException():
            text = (
                f"{place} was silent for too long ({timeouts}); the model may be overloaded or the line dead."
            )
        case httpx2.ProxyError():
            text = (
                f"The proxy {proxy} refused to connect to {place}: {clip(reason)}. "
                "Check HTTPS_PROXY and NO_PROXY."
            )
        case httpx2.ConnectError() if is_certificate(error):
            text = (
                f"{place} showed a certificate that is not believed{via}: {clip(reason)}. "
                "If a private authority signed it, name its PEM file in SSL_CERT_FILE."
            )
        case httpx2.DecodingError():
            return MalformedReply(
                f"{place} sent a body that cannot be decompressed: {clip(reason)}.", provider=provider
            )
        case httpx2.ConnectError() | ssl.SSLError():
            text = (
                f"No connection to {place}{via}: {clip(reason)}. "
                "Check that the server runs, the base URL, the network and the proxy settings."
            )
        case httpx2.RemoteProtocolError() if "disconnect" not in reason and "closed connection" not in reason:
            return MalformedReply(
                f"{place} does not speak HTTP as expected{via}: {clip(reason)}. Check the base URL.",
                provider=provider,
            )
        case _:
            text = f"The connection to {place}{via} was cut: {clip(reason)}."
    return ConnectionFault(text, provider=provider)


def foreign() -> tuple[type[Exception], ...]:
    """The exceptions that talking to a server may raise: the transport's, the codec's and our own."""
    import httpx2

    return (
        ProviderError,
        ConfigError,
        httpx2.HTTPError,
        httpx2.InvalidURL,
        httpx2.StreamError,
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


def sentence(text: str) -> str:
    """Words that others can follow."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def span(seconds: float) -> str:
    """A long time in the unit one would say it in."""
    for size_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def without(key: str | None, text: str) -> str:
    """A text that does not show the key; what is shorter than any secret (`ollama`, `x`) may be an ordinary word."""
    return text if key is None or len(key) < LEAST_SECRET_CHARS else text.replace(key, "[key]")


def patient(error: ProviderError) -> ProviderError:
    """The error, whose words name the wait the server asked for where that is longer than anybody sits through."""
    if error.retry_after_s is not None and error.retry_after_s > LONG_WAIT_S:
        error.args = (f"{sentence(str(error))} It asks to wait {span(error.retry_after_s)}.",)
    return error
