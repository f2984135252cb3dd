"""Login to MCP servers: the auth object that attaches, renews and widens the tokens of requests; `jaato mcp login` and `logout`."""

from __future__ import annotations

import json
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
from jaato.plugins.mcp.oauth.requests import Wire, is_loopback, revoke, secure
from jaato.plugins.mcp.oauth.token_store import TokenStore
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, parse_url

WITHIN_S = 300.0
PROBE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MAX_ROUNDS = 6
MAX_WIDENED = 2
MAX_HEADER_CHARS = 8_192


class Bearer(httpx2.Auth):
    """Logs in to one server; `failure` is why the last request could not be, for those who only see it fail."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.failure: JaatoError | None = None
        self._let_in = False

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Not used: logging in waits for others, which only the asynchronous client does."""
        raise TypeError("Logging in needs the asynchronous client.")

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with what is granted; answer a 401 or a 403 that asks for more."""
        if "authorization" in request.headers or not self._is_for(request):
            yield request
            return
        turn = Turn(self.login)
        try:
            tokens = await self.login.current() if self._is_safe() else None
            for _ in range(MAX_ROUNDS):
                if tokens is not None:
                    request.headers["Authorization"] = f"Bearer {tokens.access}"
                response = yield request
                challenge = asked(response, tokens)
                if challenge is None:
                    self.failure = None
                    await self._is_let_in()
                    return
                await drop(response)
                tokens = await turn.next(response.status_code, challenge, tokens)
            raise OAuthFault(
                f"{plain(self.login.server_name)} keeps asking for another login; it was given up."
            )
        except JaatoError as error:
            self.failure = error
            self._let_in = False
            raise

    async def _is_let_in(self) -> None:
        """A login that was once needed is needed no more, since the server answers."""
        if not self._let_in:
            self._let_in = True
            await self.login.store.note(self.login.name, needed=False)

    def _is_for(self, request: httpx2.Request) -> bool:
        try:
            return parse_url(str(request.url)).origin == self.login.server.origin
        except AddressRefused:
            return False

    def _is_safe(self) -> bool:
        return self.login.server.scheme == "https" or is_loopback(self.login.server.host)


class Turn:
    """What was tried for one request, so that nothing is tried twice."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.renewed = False
        self.granted = False
        self.widened = 0

    async def next(self, status: int, challenge: Challenge, tokens: Tokens | None) -> Tokens:
        """The tokens to try next. Raises `OAuthFault` when there is nothing left to try."""
        used = tokens.access if tokens else ""
        login = self.login
        secure(login.server, f"The server {plain(login.server_name)}")
        login.record = await login.store.read(login.name)
        entry = login.record.entry if login.record else None
        kept = entry.tokens if entry else None
        other = (
            kept if kept is not None and kept.access != used else None
        )  # another task or process was faster
        if status == 403:
            if self.widened >= MAX_WIDENED or (
                self.widened and tokens is not None and {*challenge.scope} <= {*tokens.scope}
            ):
                raise self.login.too_narrow(challenge)
            self.widened += 1
            if other is not None and {*challenge.scope} <= {*other.scope}:
                return other
            if challenge.scope in login.given_up:
                raise login.too_narrow(challenge)
            return await obtain(login, challenge)
        if self.granted:
            raise OAuthFault(f"{plain(self.login.server_name)} refuses the token it was just granted.")
        may_renew, self.renewed = not self.renewed, self.renewed or used != ""
        if other is not None and other.lasts(login.now()):
            return other
        if entry is not None and kept is not None and may_renew:
            renewed = await login.renew(entry)
            if renewed is not None:
                return renewed
        self.granted = True
        return await obtain(login, challenge)


def asked(response: httpx2.Response, tokens: Tokens | None) -> Challenge | None:
    """What the server asks for, None when the answer is to be taken as it is."""
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
    """What a 401 or 403 asks for, None where it says nothing of bearer tokens."""
    said = headers.get("www-authenticate", "")[:MAX_HEADER_CHARS]
    if "bearer" not in said.lower():
        return None
    response = httpx2.Response(401, headers={"www-authenticate": said})
    return Challenge(
        (extract_field_from_www_auth(response, "error") or "")[:100],
        tuple(scopes_of(extract_scope_from_www_auth(response) or "")),
        extract_resource_metadata_from_www_auth(response) or "",
    )


async def drop(response: httpx2.Response) -> None:
    """Let go of an answer unread, however long it is; the client reads what is left, which is nothing."""
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


class State(NamedTuple):
    """Whether somebody is logged in, where, for what, and until when by this machine's clock (None: not said)."""

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
    within_s: float = WITHIN_S,
) -> Login:
    """The login of a configured server. Raises `ConfigError` for a URL or options that cannot be used."""
    try:
        server = parse_url(config.url)
    except AddressRefused as error:
        raise ConfigError(f"{plain(config.name)}: {error}") from None
    options = options_of(config.oauth, plain(config.name))
    wire = Wire(server, environ, allowed)
    return Login(config.name, server, options, store, wire, ask, within_s=within_s)


def auth_for(
    config: Server,
    store: TokenStore,
    ask: Ask | None = None,
    *,
    environ: Mapping[str, str],
    allowed: AllowedHosts | None = None,
    within_s: float = WITHIN_S,
) -> Bearer:
    """An httpx2 auth object for the server's client; it stays away from requests that bring their own
    Authorization. Without `ask` a login that needs a person raises `LoginRequired`. Raises `ConfigError`."""
    return Bearer(login_of(config, store, ask, environ=environ, allowed=allowed, within_s=within_s))


async def login(
    config: Server,
    store: TokenStore,
    ask: Ask | None,
    *,
    environ: Mapping[str, str],
    scopes: tuple[str, ...] = (),
    allowed: AllowedHosts | None = None,
) -> State:
    """Log in now, whether or not somebody was; `scopes` are asked for besides. Raises `OAuthFault`, `ConfigError`."""
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
    """Forget the logins of a server, then have their tokens made void where that is offered; says what was done."""
    made = login_of(config, store, None, environ=environ, allowed=allowed)
    record = await store.read(made.name)
    await store.forget(made.name)
    if record is None:
        return f"Nobody was logged in to {plain(config.name)}."
    if any(entry.tokens for entry in record.entries.values()) and made.options.grant != "client_credentials":
        await store.note(made.name, needed=True)
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


async def state(config: Server, store: TokenStore) -> State:
    """Whether somebody is logged in to a server, by what is kept; nobody is asked. Raises `ConfigError`."""
    made = login_of(config, store, None, environ={})
    made.record = await store.read(made.name)
    return state_of(made)


def state_of(made: Login) -> State:
    """What is known of a login."""
    entry = made.record.entry if made.record else None
    if entry is None or entry.tokens is None:
        return State(False)
    tokens = entry.tokens
    renews = bool(tokens.refresh) or made.options.grant == "client_credentials"
    return State(
        renews or tokens.lasts(made.now()), entry.issuer, tuple(tokens.scope), tokens.expires_at, renews
    )
