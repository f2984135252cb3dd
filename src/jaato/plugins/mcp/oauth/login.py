"""Logging in to MCP servers: an auth object for requests, and what `jaato mcp login` and `logout` do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from jaato.errors import ConfigError
from jaato.plugins.mcp.oauth.bearer import Bearer, challenge_of
from jaato.plugins.mcp.oauth.callback import Ask
from jaato.plugins.mcp.oauth.credentials import Challenge, Login
from jaato.plugins.mcp.oauth.options import LoginRequired, OAuthFault, Options, options_of, plain, scopes_of
from jaato.plugins.mcp.oauth.provider import obtain
from jaato.plugins.mcp.oauth.requests import Wire, secure
from jaato.plugins.mcp.oauth.token_store import TokenStore
from jaato.plugins.mcp.oauth.tokens import revoke
from jaato.tools.network.addresses import AddressRefused, AllowedHosts, parse_url

WITHIN_S = 300.0
PROBE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


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


__all__ = ["Options", "auth_for", "login", "logout", "state"]
