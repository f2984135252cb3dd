"""What is asked of a token endpoint: tokens, renewed tokens, revocation; what it answers is checked before it is used."""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

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
from jaato.plugins.mcp.oauth.requests import Reply, Wire, secure_url

CREDENTIAL = re.compile(r"[\x21-\x7e]{1,16384}")
METHODS: tuple[Method, ...] = ("none", "client_secret_post", "client_secret_basic")
"""As they are preferred where a server takes several: more servers read the form rightly than the header."""
MAX_LIFE_S = 10 * 365 * 86_400.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Clock = Callable[[], float]


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
    now: Clock = time.time,
) -> Tokens:
    """Tokens for a grant; `form` has all but the client. Raises `Refused` with the server's word, `OAuthFault`."""
    headers, more = proof(client, options, issuer, now)
    body = urlencode({**form, **more}).encode()
    return await send(wire, endpoint, body, {**FORM, **headers}, form.get("scope", ""), now)


async def send(
    wire: Wire, endpoint: str, body: bytes, headers: Mapping[str, str], scope: str, now: Clock
) -> Tokens:
    """Tokens for a request that is made already. Raises as `token`."""
    what = "The token endpoint"
    asked_at = now()
    reply = await wire.post(secure_url(endpoint, what), body, headers, what)
    if reply.status == 429 or reply.status >= 500:
        raise Unreachable(f"{what} answered with status {reply.status}; try again later.")
    if reply.status not in (200, 201):
        raise refused(reply, what)
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


def proof(client: Client, options: Options, issuer: str, now: Clock) -> tuple[dict[str, str], dict[str, str]]:
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
                "client_assertion": assertion(client, options, issuer, now),
            }


def assertion(client: Client, options: Options, issuer: str, now: Clock) -> str:
    """A signed statement of who the client is (RFC 7523). Raises `OAuthFault` that shows nothing of the key."""
    try:
        import jwt
    except ImportError:
        raise OAuthFault(
            "A login with oauth.private_key needs the extra mcp: pip install 'jaato[mcp]'."
        ) from None

    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": issuer,
        "iat": int(now()),
        "exp": int(now()) + 120,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        return jwt.encode(claims, options.private_key or "", algorithm=options.signing_algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
        raise OAuthFault("oauth.private_key cannot sign with oauth.signing_algorithm; check both.") from None


def refused(reply: Reply, what: str) -> Refused:
    """The server's no, with its reason as far as it may be shown."""
    error, why = "", ""
    try:
        document = reply.document(what)
        error, why = plain(document.get("error"))[:60], plain(document.get("error_description"))
    except OAuthFault:
        pass
    said = f": {error}" if error else ""
    return Refused(f"{what} refused with status {reply.status}{said}{f' ({why})' if why else ''}.", error)


async def revoke(wire: Wire, entry: Entry, options: Options, now: Clock = time.time) -> bool:
    """Have the tokens of a login made void (RFC 7009); whether the server said so. Raises `OAuthFault`."""
    if not entry.revocation_endpoint or entry.tokens is None:
        return False
    what = "The revocation endpoint"
    secret, kind = entry.tokens.access, "access_token"
    if entry.tokens.refresh:
        secret, kind = entry.tokens.refresh, "refresh_token"
    headers, more = proof(entry.client, options, entry.issuer, now)
    body = urlencode({"token": secret, "token_type_hint": kind, **more}).encode()
    reply = await wire.post(secure_url(entry.revocation_endpoint, what), body, {**FORM, **headers}, what)
    return reply.status == 200
