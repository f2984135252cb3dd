"""What is known of the login to one server: its tokens as long as they last, renewed once among all processes."""

from __future__ import annotations

import shlex
import time
from typing import NamedTuple

import anyio
import msgspec
from mcp.client.auth.utils import issuers_match

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.plugins.mcp.oauth.callback import Ask
from jaato.plugins.mcp.oauth.options import (
    Entry,
    LoginRequired,
    OAuthFault,
    Options,
    Record,
    Refused,
    Tokens,
    plain,
)
from jaato.plugins.mcp.oauth.requests import Wire, token
from jaato.plugins.mcp.oauth.token_store import TokenStore, name_of
from jaato.tools.network.addresses import Url

log = logger("mcp.oauth")
WITHIN_S, LOCK_WITHIN_S = 300.0, 60.0
DEAD = frozenset(("invalid_grant", "invalid_client", "unauthorized_client"))


class Challenge(NamedTuple):
    """What a server asks for with a 401 or 403."""

    error: str = ""
    scope: tuple[str, ...] = ()
    metadata: str = ""


class Login:
    """The login to one server; `ask` is None where no user can be asked."""

    def __init__(
        self,
        server_name: str,
        server: Url,
        options: Options,
        store: TokenStore,
        wire: Wire,
        ask: Ask | None,
    ) -> None:
        self.server_name = server_name
        self.server = server
        self.options = options
        self.store = store
        self.wire = wire
        self.ask = ask
        self.within_s = WITHIN_S
        self.name = name_of(server, options)
        self.record: Record | None = None
        self.registers_anew = False
        self.given_up: set[tuple[str, ...]] = set()

    async def current_tokens(self) -> Tokens | None:
        """The tokens to send, renewed when they are about to end; None without a login."""
        if self.record is None:
            self.record = await self.store.read(self.name)
        entry = self.record.entry if self.record else None
        if entry is None or entry.tokens is None:
            return None
        return entry.tokens if entry.tokens.is_valid(time.time()) else await self.renew(entry)

    async def renew(self, entry: Entry) -> Tokens | None:
        """New tokens for a refresh token, asked for once among all processes; None when a user has to log in."""
        tokens: Tokens | None = None
        async with self.store.lock(self.name, "refresh", LOCK_WITHIN_S):
            record = self.record = await self.store.read(self.name)
            stored = record.entries.get(entry.issuer) if record else None
            if record is not None and stored is not None and stored.tokens is not None:
                tokens = stored.tokens
                if entry.tokens is not None and tokens.access == entry.tokens.access:
                    # A refresh token that was sent may be spent: the answer is awaited and stored.
                    with anyio.CancelScope(shield=True):
                        tokens = await self._request_renewal(record, stored, tokens)
        return tokens

    async def _request_renewal(self, record: Record, entry: Entry, old: Tokens) -> Tokens | None:
        try:
            tokens = await self._request_tokens(entry, old)
        except Refused as error:
            if error.error in DEAD:
                lost = error.error == "invalid_client" and entry.client.kind == "registered"
                await self._store(record.with_entry(without(entry, client_lost=lost)))
            return None
        if tokens is not None:
            await self._store(record.with_entry(msgspec.structs.replace(entry, tokens=tokens)))
        return tokens

    async def _request_tokens(self, entry: Entry, old: Tokens) -> Tokens | None:
        form = {"resource": entry.resource}
        if self.options.grant == "client_credentials":
            form |= {"grant_type": "client_credentials"}
            if entry.asked_scope:
                form["scope"] = " ".join(entry.asked_scope)
        elif old.refresh:
            form |= {"grant_type": "refresh_token", "refresh_token": old.refresh}
        else:
            return None
        got = await token(self.wire, entry.token_endpoint, entry.issuer, entry.client, self.options, form)
        return msgspec.structs.replace(got, refresh=got.refresh or old.refresh, scope=got.scope or old.scope)

    async def _store(self, record: Record) -> None:
        """Store a record; it stays in memory when the disk is full, since the old token is void."""
        self.record = record
        try:
            await self.store.write(self.name, record)
        except ConfigError as error:
            log.warning("The login of %s could not be saved: %s", plain(self.server_name), error)

    def choose_issuer(self, advertised: list[str]) -> str:
        """Which authorization server to use: the configured, a known, or else the first. Raises `OAuthFault` where a
        configured client would be shown to another than it belongs to."""
        record, options = self.record, self.options
        known = [record.current, *record.entries] if record else []
        for mine in [options.issuer] if options.issuer else filter(None, known):
            for one in advertised:
                if issuers_match(one, mine):
                    return one
        if options.issuer or (any(known) and options.client_id):
            raise self.issuer_error(plain(advertised[0]))
        return advertised[0]

    def issuer_error(self, found: str) -> OAuthFault:
        """A configured client belongs to another authorization server than the one that was found."""
        if self.options.issuer:
            return OAuthFault(
                f"{plain(self.server_name)} takes its tokens from {found}, not from the configured issuer."
            )
        known = self.record.current if self.record else ""
        return OAuthFault(
            f"{plain(self.server_name)} has changed its authorization server to {found}; the configured client belongs "
            f"to {plain(known)}. If that is right: {self.command('logout')}, and log in."
        )

    def command(self, verb: str) -> str:
        """The command for the user to run."""
        return f"`jaato mcp {verb} {shlex.quote(plain(self.server_name))}`"

    def scope_error(self, challenge: Challenge) -> OAuthFault:
        """The error for a scope that is not granted; this process does not ask the user for it again."""
        self.given_up.add(challenge.scope)
        wanted = f" ({plain(' '.join(challenge.scope))})" if challenge.scope else ""
        return OAuthFault(
            f"{plain(self.server_name)} says that the login is not wide enough{wanted}, whatever it was granted."
        )

    async def require_user(self, scope: list[str]) -> None:
        """Raise `LoginRequired` where no user can be asked; the scope is stored for the next login."""
        if self.ask is not None:
            return
        entry = self.record.entry if self.record else None
        more = entry is not None and entry.tokens is not None and not {*scope} <= {*entry.tokens.scope}
        if entry is not None and scope != entry.asked_scope:
            await self.save(msgspec.structs.replace(entry, asked_scope=scope))
        await self.store.set_login_needed(self.name, needed=True)
        what = f"a wider login ({plain(' '.join(scope))})" if more else "you to log in"
        raise LoginRequired(f"{plain(self.server_name)} needs {what}: run {self.command('login')}.")

    async def save(self, entry: Entry) -> None:
        """Keep a login beside those there are. Raises `ConfigError` when the disk refuses."""
        async with self.store.lock(self.name, "refresh", LOCK_WITHIN_S):
            record = await self.store.read(self.name) or Record(server=str(self.server))
            self.record = record.with_entry(entry)
            await self.store.write(self.name, self.record)
        if entry.tokens is not None:
            await self.store.set_login_needed(self.name, needed=False)


def without(entry: Entry, *, client_lost: bool) -> Entry:
    """A login whose tokens are void, and whose client as well if that is `client_lost`."""
    client = msgspec.structs.replace(entry.client, redirect_uri="") if client_lost else entry.client
    return msgspec.structs.replace(entry, tokens=None, client=client)
