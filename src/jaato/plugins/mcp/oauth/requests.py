"""Requests of a login: https or loopback only, to checked addresses, bounded in size and time, without redirects to other hosts;
among them those to the token endpoint and to the revocation endpoint."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import msgspec
from msgspec.structs import replace

from jaato.errors import ConfigError
from jaato.plugins.mcp.oauth.options import (
    Client,
    Entry,
    Method,
    OAuthFault,
    Options,
    Refused,
    Tokens,
    Unreachable,
    plain,
    scopes_of,
)
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import CheckedResolver, Resolve, exchange, request_to, system_resolve
from jaato.tools.network.proxy_settings import is_loopback

MAX_BYTES = 262_144
WITHIN_S = 20.0
MAX_REDIRECTS = 3
REDIRECTS = frozenset((301, 302, 303, 307, 308))
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
CREDENTIAL = re.compile(r"[\x21-\x7e]{1,16384}")
METHODS: tuple[Method, ...] = ("none", "client_secret_post", "client_secret_basic")
"""As they are preferred where a server takes several: more servers read the form rightly than the header."""
MAX_LIFE_S = 10 * 365 * 86_400.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Reply(msgspec.Struct, frozen=True):
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self, what: str) -> dict[str, Any]:
        """The body as a JSON object. Raises `OAuthFault`, showing nothing of it."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise OAuthFault(
                f"{what} is no JSON object; the server is set up wrongly, or it is another page."
            )
        return found


class Wire:
    """Sends what logging in to one server needs.

    Private addresses are refused but for the server's own host and what `allowed` names; a server on this machine
    may send us to others on this machine.
    """

    def __init__(
        self,
        server: Url,
        environ: Mapping[str, str],
        allowed: AllowedHosts | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        allowed = allowed or AllowedHosts()
        networks = allowed.networks
        if is_loopback(server.host, strict=True):
            networks += tuple((network, None) for network in LOOPBACK)
        names = allowed.names | {(server.host, server.port)}
        self.environ = environ
        self.within_s = WITHIN_S
        self.dialer = CheckedResolver(replace(allowed, names=names, networks=networks), resolve)

    async def get(self, url: Url, what: str) -> Reply:
        """Fetch a document; redirects are followed within its origin alone. Raises `OAuthFault`."""
        headers = {"Accept": "application/json"}
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send("GET", url, headers, None, what, MAX_BYTES)
            place = reply.headers.get("location", "")
            if reply.status not in REDIRECTS or not place:
                return reply
            try:
                following = parse_url(place, url)
            except AddressRefused:
                raise OAuthFault(f"{what} redirects to what is no web address.") from None
            if following.origin != url.origin:
                raise OAuthFault(f"{what} redirects to another host, {following.host}; that is not followed.")
            url = following
        raise OAuthFault(f"{what} redirects more than {MAX_REDIRECTS} times.")

    async def post(
        self, url: Url, body: bytes, headers: Mapping[str, str], what: str, most_bytes: int = MAX_BYTES
    ) -> Reply:
        """Send a document; no redirect is followed, for it may hold secrets. With `most_bytes` 0 the answer's body is
        not read. Raises `OAuthFault`."""
        return await self._send(
            "POST", url, {"Accept": "application/json", **headers}, body, what, most_bytes
        )

    async def check(self, url: Url, what: str) -> None:
        """Raise `OAuthFault` for a place where a browser should not be sent either; an unknown name passes, for
        the browser may know it by other means."""
        try:
            await self.dialer.addresses(url.host, url.port)
        except AddressRefused as error:
            raise OAuthFault(f"{what}: {error}") from None
        except OSError:
            return

    async def _send(
        self,
        method: str,
        url: Url,
        headers: Mapping[str, str],
        body: bytes | None,
        what: str,
        most_bytes: int,
    ) -> Reply:
        import httpcore2

        secure(url, what)
        try:
            with anyio.fail_after(self.within_s):
                request = request_of(method, url, headers, body)
                async with exchange(url, request, self.dialer, self.environ) as (response, _):
                    return await read(response, what, most_bytes)
        except TimeoutError:
            raise Unreachable(f"{what}: {url.authority} did not answer within {self.within_s:g} s.") from None
        except AddressRefused as error:
            raise OAuthFault(f"{what}: {error}") from None
        except ConfigError as error:
            raise OAuthFault(f"{what}: {error}") from None
        except (httpcore2.NetworkError, httpcore2.ProxyError, httpcore2.TimeoutException) as error:
            raise Unreachable(f"{what}: {url.authority} cannot be reached: {plain(str(error))}.") from None
        except httpcore2.ProtocolError:
            raise OAuthFault(f"{what}: {url.authority} did not keep to HTTP.") from None


def secure(url: Url, what: str) -> None:
    """Raise `OAuthFault` for a URL that is neither https nor on this machine."""
    if url.scheme != "https" and not is_loopback(url.host, strict=True):
        raise OAuthFault(
            f"{what} is at {url.host} over plain http; only https, or this machine, is used to log in."
        )


def secure_url(text: Any, what: str) -> Url:
    """The URL from an untrusted document, if it is https or loopback. Raises `OAuthFault`."""
    if not isinstance(text, str) or not text or not text.isascii():
        raise OAuthFault(f"{what} is no web address in ASCII.")
    if "#" in text:
        raise OAuthFault(f"{what} has a fragment; it must have none.")
    try:
        url = parse_url(text)
    except AddressRefused:
        raise OAuthFault(f"{what} is {plain(text)!r}, which is no https address.") from None
    secure(url, what)
    return url


def request_of(method: str, url: Url, headers: Mapping[str, str], body: bytes | None) -> Any:
    """The request, which does not accept compressed responses."""
    every = {**headers, "Accept-Encoding": "identity", "User-Agent": "jaato"}
    if body is not None:
        every["Content-Length"] = str(len(body))
    return request_to(url, method, every.items(), body)


async def read(response: Any, what: str, most_bytes: int) -> Reply:
    """The answer whole, or `OAuthFault` for one that is too long or packed."""
    lines: dict[str, list[str]] = {}
    for name, value in response.headers:
        lines.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    headers = {name: ", ".join(values) for name, values in lines.items()}
    data = bytearray()
    if most_bytes:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise OAuthFault(f"{what} came packed, which was not asked for.")
        async for chunk in response.aiter_stream():
            data += chunk
            if len(data) > most_bytes:
                raise OAuthFault(f"{what} has more than {most_bytes:,} bytes; it is not read.")
    return Reply(response.status, headers, bytes(data))


def method_for(options: Options, offered: Sequence[str]) -> Method:
    """How a client that a person has registered beforehand shows who it is."""
    if options.token_endpoint_auth_method is not None:
        return options.token_endpoint_auth_method
    if options.private_key:
        return "private_key_jwt"
    if not options.client_secret:
        return "none"
    return "client_secret_post" if "client_secret_post" in offered else "client_secret_basic"


async def token(
    wire: Wire,
    endpoint: str,
    issuer: str,
    client: Client,
    options: Options,
    form: Mapping[str, str],
) -> Tokens:
    """Tokens for a grant; `form` has all but the client. Raises `Refused` with the server's word, `OAuthFault`."""
    headers, more = client_authentication(client, options, issuer)
    body = urlencode({**form, **more}).encode()
    return await send(wire, endpoint, body, {**FORM, **headers}, form.get("scope", ""))


async def send(wire: Wire, endpoint: str, body: bytes, headers: Mapping[str, str], scope: str) -> Tokens:
    """Tokens for a request that is made already. Raises as `token`."""
    what = "The token endpoint"
    asked_at = time.time()
    reply = await wire.post(secure_url(endpoint, what), body, headers, what)
    if reply.status == 429 or reply.status >= 500:
        raise Unreachable(f"{what} answered with status {reply.status}; try again later.")
    if reply.status not in (200, 201):
        raise refusal_error(reply, what)
    return tokens_from(reply.document("The answer of the token endpoint"), scope, asked_at)


def tokens_from(document: Mapping[str, Any], asked_scope: str, asked_at: float) -> Tokens:
    """The tokens in an answer; a life of 0, as some say who do not know it, is none. Raises `OAuthFault` for any kind
    but bearer tokens that a header can carry."""
    kind = document.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise OAuthFault(
            f"The token endpoint gave a token of type {plain(kind) or 'none'!r}; only bearer is used."
        )
    access, refresh = document.get("access_token"), document.get("refresh_token") or ""
    if not isinstance(access, str) or not CREDENTIAL.fullmatch(access):
        raise OAuthFault("The token endpoint gave no access_token that can be used.")
    if not isinstance(refresh, str) or (refresh and not re.fullmatch(r"[\x20-\x7e]{1,16384}", refresh)):
        raise OAuthFault("The token endpoint gave a refresh_token that cannot be used.")
    life = number(document.get("expires_in"))
    scope = document.get("scope")
    return Tokens(
        access=access,
        refresh=refresh,
        scope=scopes_of(scope if isinstance(scope, str) else asked_scope),
        obtained_at=asked_at,
        expires_at=None if not life else asked_at + min(life, MAX_LIFE_S),
    )


def number(value: Any) -> float | None:
    """A number of a document, which some servers write as text; None for what is none."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e12:
        return None
    return float(value)


def client_authentication(
    client: Client, options: Options, issuer: str
) -> tuple[dict[str, str], dict[str, str]]:
    """How a client shows who it is: headers, and fields of the form."""
    match client.method:
        case "none":
            return {}, {"client_id": client.client_id}
        case "client_secret_post":
            return {}, {"client_id": client.client_id, "client_secret": client.secret}
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
            basic = base64.b64encode(pair.encode()).decode()
            # The name in the form as well: some servers, the SDK's among them, look for it only there.
            return {"Authorization": f"Basic {basic}"}, {"client_id": client.client_id}
        case "private_key_jwt":
            return {}, {
                "client_id": client.client_id,
                "client_assertion_type": ASSERTION,
                "client_assertion": assertion(client, options, issuer),
            }


def assertion(client: Client, options: Options, issuer: str) -> str:
    """A signed statement of who the client is (RFC 7523). Raises `OAuthFault` that shows nothing of the key."""
    import jwt

    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": issuer,
        "iat": int(time.time()),
        "exp": int(time.time()) + 120,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        return jwt.encode(claims, options.private_key or "", algorithm=options.signing_algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
        raise OAuthFault("oauth.private_key cannot sign with oauth.signing_algorithm; check both.") from None


def refusal_error(reply: Reply, what: str) -> Refused:
    """The error for a refusal of the server, with its reason as far as it may be shown."""
    error, why = "", ""
    try:
        document = reply.document(what)
        error, why = plain(document.get("error"))[:60], plain(document.get("error_description"))
    except OAuthFault:
        pass
    detail = f": {error}" if error else ""
    return Refused(f"{what} refused with status {reply.status}{detail}{f' ({why})' if why else ''}.", error)


async def revoke(wire: Wire, entry: Entry, options: Options) -> bool:
    """Revoke the tokens of a login (RFC 7009); returns whether the server confirmed it. Raises `OAuthFault`."""
    if not entry.revocation_endpoint or entry.tokens is None:
        return False
    what = "The revocation endpoint"
    secret, kind = entry.tokens.access, "access_token"
    if entry.tokens.refresh:
        secret, kind = entry.tokens.refresh, "refresh_token"
    headers, more = client_authentication(entry.client, options, entry.issuer)
    body = urlencode({"token": secret, "token_type_hint": kind, **more}).encode()
    reply = await wire.post(secure_url(entry.revocation_endpoint, what), body, {**FORM, **headers}, what)
    return reply.status == 200
