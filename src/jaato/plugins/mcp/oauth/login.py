"""Login to MCP servers: the auth object that attaches, renews and widens the tokens of requests; `jaato mcp login` and `logout`."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any, NamedTuple, Protocol

import httpx2
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from jaato.errors import ConfigError, JaatoError
from jaato.plugins.mcp.oauth.callback import Ask
from jaato.plugins.mcp.oauth.credentials import Challenge, Login
from jaato.plugins.mcp.oauth.options import LoginRequired, OAuthFault, Tokens, options_of, plain, scopes_of
from jaato.plugins.mcp.oauth.provider import obtain
from jaato.plugins.mcp.oauth.requests import Wire, revoke, secure
from jaato.plugins.mcp.oauth.token_store import TokenStore
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, parse_url
from jaato.tools.network.proxy_settings import is_loopback

PROBE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MAX_ROUNDS = 6
MAX_WIDENED = 2
MAX_HEADER_CHARS = 8_192


class Bearer(httpx2.Auth):
    """The httpx2 authentication for one server; `failure` is why the last request could not be authenticated."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.failure: JaatoError | None = None
        self._succeeded = False

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Not supported: a login needs the asynchronous client."""
        raise TypeError("Logging in needs the asynchronous client.")

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the tokens; on a 401 or a 403 that asks for more, renew or widen the login."""
        if "authorization" in request.headers or not self._is_for(request):
            yield request
            return
        attempt = AuthAttempt(self.login)
        try:
            tokens = await self.login.current_tokens() if self._is_safe() else None
            for _ in range(MAX_ROUNDS):
                if tokens is not None:
                    request.headers["Authorization"] = f"Bearer {tokens.access}"
                response = yield request
                challenge = read_challenge(response, tokens)
                if challenge is None:
                    self.failure = None
                    await self._record_success()
                    return
                await discard_body(response)
                tokens = await attempt.next_tokens(response.status_code, challenge, tokens)
            raise OAuthFault(
                f"{plain(self.login.server_name)} keeps asking for another login; it was given up."
            )
        except JaatoError as error:
            self.failure = error
            self._succeeded = False
            raise

    async def _record_success(self) -> None:
        """Record that no login is needed, since the server has answered."""
        if not self._succeeded:
            self._succeeded = True
            await self.login.store.set_login_needed(self.login.name, needed=False)

    def _is_for(self, request: httpx2.Request) -> bool:
        try:
            return parse_url(str(request.url)).origin == self.login.server.origin
        except AddressRefused:
            return False

    def _is_safe(self) -> bool:
        return self.login.server.scheme == "https" or is_loopback(self.login.server.host, strict=True)


class AuthAttempt:
    """The attempts to authenticate one request, so that none is repeated."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.tried_renewal = False
        self.tried_grant = False
        self.widenings = 0

    async def next_tokens(self, status: int, challenge: Challenge, tokens: Tokens | None) -> Tokens:
        """The tokens to try next. Raises `OAuthFault` when there is nothing left to try."""
        used = tokens.access if tokens else ""
        login = self.login
        secure(login.server, f"The server {plain(login.server_name)}")
        login.record = await login.store.read(login.name)
        entry = login.record.entry if login.record else None
        stored = entry.tokens if entry else None
        other = (
            stored if stored is not None and stored.access != used else None
        )  # another task or process has renewed it
        if status == 403:
            if self.widenings >= MAX_WIDENED or (
                self.widenings and tokens is not None and {*challenge.scope} <= {*tokens.scope}
            ):
                raise self.login.scope_error(challenge)
            self.widenings += 1
            if other is not None and {*challenge.scope} <= {*other.scope}:
                return other
            if challenge.scope in login.given_up:
                raise login.scope_error(challenge)
            return await obtain(login, challenge)
        if self.tried_grant:
            raise OAuthFault(f"{plain(self.login.server_name)} refuses the token it was just granted.")
        may_renew, self.tried_renewal = not self.tried_renewal, self.tried_renewal or used != ""
        if other is not None and other.is_valid(time.time()):
            return other
        if entry is not None and stored is not None and may_renew:
            renewed = await login.renew(entry)
            if renewed is not None:
                return renewed
        self.tried_grant = True
        return await obtain(login, challenge)


def read_challenge(response: httpx2.Response, tokens: Tokens | None) -> Challenge | None:
    """The challenge of a response; None when the response is the final one."""
    if response.status_code not in (401, 403):
        return None
    challenge = challenge_of(response.headers)
    if response.status_code == 401:
        return challenge or Challenge()
    if challenge is None or tokens is None:
        return None
    missing = not {*challenge.scope} <= {*tokens.scope}
    wants_more = challenge.error == "insufficient_scope" or (not challenge.error and missing)
    return challenge if wants_more else None


def challenge_of(headers: Mapping[str, str]) -> Challenge | None:
    """The bearer challenge of a 401 or 403, None without one."""
    header = headers.get("www-authenticate", "")[:MAX_HEADER_CHARS]
    if "bearer" not in header.lower():
        return None
    response = httpx2.Response(401, headers={"www-authenticate": header})
    return Challenge(
        (extract_field_from_www_auth(response, "error") or "")[:100],
        tuple(scopes_of(extract_scope_from_www_auth(response) or "")),
        extract_resource_metadata_from_www_auth(response) or "",
    )


async def discard_body(response: httpx2.Response) -> None:
    """Close a response without reading its body, so that the client reads an empty one."""
    if isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
    response.headers.pop("content-encoding", None)
    response.stream = httpx2.ByteStream(b"")


class Server(Protocol):
    """What is read of a server's configuration, its variables filled in."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def oauth(self) -> Any: ...


class LoginState(NamedTuple):
    """Whether there is a login, where, for what, and until when by this machine's clock (None: unknown)."""

    logged_in: bool
    issuer: str = ""
    scope: tuple[str, ...] = ()
    expires_at: float | None = None
    renews: bool = False


def login_of(
    config: Server,
    store: TokenStore,
    ask: Ask | None,
    *,
    environ: Mapping[str, str],
    allowed: AllowedHosts | None = None,
) -> Login:
    """The login of a configured server. Raises `ConfigError` for a URL or options that cannot be used."""
    try:
        server = parse_url(config.url)
    except AddressRefused as error:
        raise ConfigError(f"{plain(config.name)}: {error}") from None
    options = options_of(config.oauth, plain(config.name))
    wire = Wire(server, environ, allowed)
    return Login(config.name, server, options, store, wire, ask)


def auth_for(
    config: Server,
    store: TokenStore,
    ask: Ask | None = None,
    *,
    environ: Mapping[str, str],
    allowed: AllowedHosts | None = None,
) -> Bearer:
    """An httpx2 auth object for the server's client; it stays away from requests that bring their own
    Authorization. Without `ask` a login that needs a person raises `LoginRequired`. Raises `ConfigError`."""
    return Bearer(login_of(config, store, ask, environ=environ, allowed=allowed))


async def login(
    config: Server,
    store: TokenStore,
    ask: Ask | None,
    *,
    environ: Mapping[str, str],
    scopes: tuple[str, ...] = (),
    allowed: AllowedHosts | None = None,
) -> LoginState:
    """Log in again in any case; `scopes` are requested in addition. Raises `OAuthFault`, `ConfigError`."""
    made = login_of(config, store, ask, environ=environ, allowed=allowed)
    made.registers_anew = (
        True  # it may be that the server has forgotten the client, and shows a page that ends nowhere
    )
    what = f"The server {plain(config.name)}"
    secure(made.server, what)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    reply = await made.wire.post(made.server, json.dumps(PROBE).encode(), headers, what, most_bytes=0)
    made.record = await store.read(made.name)
    try:
        await obtain(made, challenge_of(reply.headers) or Challenge(), tuple(scopes_of(list(scopes))))
    except LoginRequired:
        raise
    except OAuthFault as error:
        if reply.status < 300:
            raise OAuthFault(f"{what} answers without a login, and offers none that works: {error}") from None
        raise
    return state_of(made)


async def logout(
    config: Server,
    store: TokenStore,
    *,
    environ: Mapping[str, str],
    allowed: AllowedHosts | None = None,
) -> str:
    """Delete the logins of a server and revoke their tokens where that is offered; returns a description."""
    made = login_of(config, store, None, environ=environ, allowed=allowed)
    record = await store.read(made.name)
    await store.delete(made.name)
    if record is None:
        return f"There was no login to {plain(config.name)}."
    if any(entry.tokens for entry in record.entries.values()) and made.options.grant != "client_credentials":
        await store.set_login_needed(made.name, needed=True)
    notes = [f"Logged out of {plain(config.name)}."]
    for entry in record.entries.values():
        try:
            if await revoke(made.wire, entry, made.options):
                notes.append(f"{plain(entry.issuer)} has revoked the tokens.")
            elif entry.tokens is not None:
                notes.append(f"{plain(entry.issuer)} did not revoke the tokens; they end by themselves.")
        except OAuthFault as error:
            notes.append(f"The tokens could not be revoked: {error}")
    return " ".join(notes)


def state_of(made: Login) -> LoginState:
    """The state of a login."""
    entry = made.record.entry if made.record else None
    if entry is None or entry.tokens is None:
        return LoginState(False)
    tokens = entry.tokens
    renews = bool(tokens.refresh) or made.options.grant == "client_credentials"
    return LoginState(
        renews or tokens.is_valid(time.time()), entry.issuer, tuple(tokens.scope), tokens.expires_at, renews
    )
