"""The handler `webhook`: a call is posted, signed, to a checked address; what comes back is a result of the contract."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec import UNSET

from jaato.errors import ConfigError, JaatoError, ToolError
from jaato.plugins.arp.calls import CODE, MAX_DETAILS_BYTES, MAX_MESSAGE_CHARS
from jaato.plugins.arp.config import MAX_HEADERS, MAX_TEXT_CHARS
from jaato.plugins.arp.http_client import SENDING
from jaato.protocol.arp import SCHEMA_VERSION, Invocation, ToolResult, decode_result
from jaato.protocol.codec import json_problems
from jaato.protocol.ids import span_id, trace_id
from jaato.protocol.messages import Problem
from jaato.server.registry.registered.definition import (
    HandlerForbidden,
    HandlerLost,
    HandlerUnreachable,
    InvalidDefinition,
    Webhook,
)
from jaato.server.registry.running_call import MAX_RESULT_BYTES
from jaato.tools.call import Call
from jaato.tools.invisible_text import escape_invisible, one_line
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import CheckedResolver, exchange, read_bounded, request_to
from jaato.tools.network.proxy_settings import is_loopback
from jaato.tools.network.webhooks import SIGNATURE, signature
from jaato.tools.redaction.patterns import find_configured_secrets, looks_like_secret
from jaato.tools.remote.fields import Malformed, check_header
from jaato.tools.remote.refresh import INVOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NONCE = "Jaato-Nonce"
OURS = frozenset((NONCE.lower(), SIGNATURE.lower(), "user-agent"))
SHORTEST_SECRET = 16
LOOK_UP_S = 3.0
"""How long a name may take to be looked up when a tool is put; the call looks it up again."""


class HandlerRefusal(ToolError):
    """The handler says that the call failed."""

    code = "handler_refused"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Post:
    """How webhooks are reached: the addresses the operator allows, proxies and certificates, the key calls are signed with."""

    def __init__(self, allowed: AllowedHosts, environ: Mapping[str, str], key: Callable[[], bytes]) -> None:
        self._allowed = allowed
        self._environ = environ
        self._key = key

    async def check(self, handler: Webhook) -> None:
        """Raise `InvalidDefinition` for what can be no webhook, `HandlerForbidden` for an address that may not be reached."""
        issues: list[tuple[str, str]] = []
        if len(handler.headers) > MAX_HEADERS:
            issues.append(("/handler/headers", f"are at most {MAX_HEADERS}"))
        for name, value in handler.headers.items():
            try:
                check_header(name, value)
            except Malformed as error:
                issues.append(("/handler/headers", str(error)))
            if len(value) > MAX_TEXT_CHARS or name.lower() in OURS:
                issues.append(("/handler/headers", f"cannot set {name[:80]!r} so"))
        if handler.secret and not (
            SHORTEST_SECRET <= len(handler.secret) <= MAX_TEXT_CHARS and handler.secret.isascii()
        ):
            issues.append(
                ("/handler/secret", f"has at least {SHORTEST_SECRET} characters, all of them ASCII")
            )
        try:
            url = parse_url(handler.url)
        except AddressRefused as error:
            raise InvalidDefinition([*issues, ("/handler/url", str(error).rstrip("."))]) from None
        if issues:
            raise InvalidDefinition(issues)
        await self._check_address(url)

    async def _check_address(self, url: Url) -> None:
        dialer = CheckedResolver(self._allowed)
        try:
            self._check_plain(url)
            with anyio.move_on_after(LOOK_UP_S):
                await dialer.addresses(url.host, url.port)
        except AddressRefused as error:
            raise HandlerForbidden(f"The webhook may not be there: {error}") from None
        except OSError:
            return  # who is not known now may be when a call is made

    def _check_plain(self, url: Url) -> None:
        """Raise `AddressRefused` for a third party's address without TLS."""
        named = self._allowed.everything or self._allowed.names_host(url.host, url.port)
        if url.scheme == "https" or named or is_loopback(url.host) or self._covers(url):
            return
        raise AddressRefused(f"{url.host} is reached over plain http; use https, or allow it by allow_hosts.")

    def _covers(self, url: Url) -> bool:
        import ipaddress

        try:
            return self._allowed.covers(url.host, url.port, ipaddress.ip_address(url.host))
        except ValueError:
            return False

    async def call(self, name: str, handler: Webhook, arguments: dict[str, Any], call: Call) -> Any:
        """What the webhook gives for a call. Raises `ToolError`s."""
        import httpcore2

        url = parse_url(handler.url)
        begun: list[str] = []
        source = f"The handler of {name}"
        try:
            key = handler.secret.encode() or await anyio.to_thread.run_sync(self._key)
            self._check_plain(url)
            request = request_to(url, "POST", *sign_request(handler, key, arguments, call))
            request.extensions["trace"] = note_sending(begun)
            resolver = CheckedResolver(self._allowed)
            async with exchange(url, request, resolver, self._environ) as (response, _):
                body, is_cut = await read_bounded(response, MAX_RESULT_BYTES)
        except AddressRefused as error:
            raise ToolError(f"{source} may not be reached: {error}") from None
        except (ConfigError, OSError) as error:
            raise HandlerUnreachable(f"{source} cannot be asked: {error}") from None
        except (httpcore2.NetworkError, httpcore2.ProxyError, httpcore2.TimeoutException) as error:
            if begun:
                raise HandlerLost(
                    f"{source} broke off the connection: whether the call was carried out is not known."
                ) from None
            raise HandlerUnreachable(f"{source} cannot be reached ({one_line(str(error), 200)}).") from None
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol):
            raise HandlerLost(f"{source} does not keep to HTTP.") from None
        if is_cut:
            raise HandlerLost(f"{source} sends more than {MAX_RESULT_BYTES:,} bytes, of which none are used.")
        return result_from(source, response.status, body)


def note_sending(begun: list[str]) -> Callable[[str, dict[str, Any]], Any]:
    """Notes when a request has begun to be sent: from then on it may have been carried out."""

    async def trace(event: str, _info: dict[str, Any]) -> None:
        if event == SENDING:
            begun.append(event)

    return trace


def sign_request(
    handler: Webhook, key: bytes, arguments: dict[str, Any], call: Call
) -> tuple[list[tuple[str, str]], bytes]:
    """The headers and the body of a call: an invocation of the contract, which the signature vouches for."""
    invocation = call.services.get(INVOCATION)
    context, trace = (invocation.context, invocation.trace) if invocation is not None else (UNSET, UNSET)
    body = msgspec.json.encode(
        Invocation(args=arguments, schema_version=SCHEMA_VERSION, context=context, trace=trace)
    )
    origin = call.origin or {}
    nonce = f"{int(time.time())}-{secrets.token_hex(16)}"
    joined = origin.get("trace_id") or trace_id(call.session_id, call.id)
    headers = [
        *handler.headers.items(),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", "jaato"),
        ("X-Request-Id", origin.get("request_id") or call.id),
        ("Idempotency-Key", call.id),
        ("traceparent", f"00-{joined}-{span_id(call.session_id, 'execute_tool', call.id)}-01"),
        (NONCE, nonce),
        (SIGNATURE, signature(key, nonce, body)),
    ]
    return headers, body


def secrets_in(handler: Webhook) -> list[tuple[str, str]]:
    """The secrets of a webhook, by where they stand."""
    own = [("secret", handler.secret)] if looks_like_secret(handler.secret) else []
    return [*find_configured_secrets(handler.headers).items(), *own]


def result_from(source: str, status: int, body: bytes) -> Any:
    """What an answer gives. Raises `HandlerRefusal` where it says that the call failed, `HandlerLost` where it is no result."""
    try:
        result = decode_result(body)
    except JaatoError as error:
        raise invalid_result(source, status, error) from None
    if result.error is not UNSET:
        raise HandlerRefusal(problem_of(source, result))
    if status >= 400:
        raise HandlerLost(f"{source} says that the call went well, and HTTP {status}.")
    if problems := json_problems(result.result):
        raise HandlerLost(
            f"{source} gave what cannot be handed on: {problems[0][0] or '/'} {problems[0][1]}."
        )
    return result.result


def invalid_result(source: str, status: int, error: JaatoError) -> ToolError:
    """An answer that is no result, by its status."""
    if status in (429, 502, 503, 504):
        return HandlerUnreachable(f"{source} cannot answer now (HTTP {status}).")
    if 300 <= status < 500:
        return ToolError(
            f"{source} refused the call (HTTP {status})"
            + ("; redirects are not followed." if status < 400 else ".")
        )
    words = "It has to answer with a result as POST /v1/tools/NAME:invoke does."
    why = one_line(str(error), 200).rstrip(".")
    return HandlerLost(f"{source} answered HTTP {status} with what is no result: {why}. {words}")


def problem_of(source: str, result: ToolResult) -> Problem:
    """A handler's error as ours: its words as a third party's, its code and details beside."""
    error = result.error
    assert error is not UNSET
    message = escape_invisible(error.message[:MAX_MESSAGE_CHARS].strip()) or "It did not say why."
    details: dict[str, Any] = {"code": error.code} if CODE.fullmatch(error.code) else {}
    more = {} if error.details is UNSET else error.details
    if more and not json_problems(more) and len(msgspec.json.encode(more)) <= MAX_DETAILS_BYTES:
        details |= more
    return Problem(
        code=HandlerRefusal.code, message=f"{source}: {message}", retryable=error.retryable, details=details
    )
