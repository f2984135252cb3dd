"""The login of one server: its tokens as long as they last, renewed, widened, or granted anew by a person."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

import anyio
import msgspec

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.plugins.mcp.oauth_browser import Ask
from jaato.plugins.mcp.oauth_consent import Consent
from jaato.plugins.mcp.oauth_data import (
    Client,
    Entry,
    LoginNeeded,
    OAuthFault,
    Options,
    Record,
    Refused,
    Tokens,
    plain,
    scopes_of,
)
from jaato.plugins.mcp.oauth_discovery import (
    Authority,
    Challenge,
    NoMetadata,
    Resource,
    authority_of,
    resource_of,
    same_issuer,
)
from jaato.plugins.mcp.oauth_grants import configured, token
from jaato.plugins.mcp.oauth_store import TokenStore, name_of
from jaato.plugins.mcp.oauth_wire import Wire, secure
from jaato.tools.address import Url

log = logger("mcp.oauth")
LOCK_WITHIN_S = 60.0
DEAD = frozenset(("invalid_grant", "invalid_client", "unauthorized_client"))


class Login:
    """Keeps one server logged in; `ask` is None where nobody can be asked."""

    def __init__(
        self,
        server_name: str,
        server: Url,
        options: Options,
        store: TokenStore,
        wire: Wire,
        ask: Ask | None,
        *,
        within_s: float = 300.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.server_name = server_name
        self.server = server
        self.options = options
        self.store = store
        self.wire = wire
        self.ask = ask
        self.within_s = within_s
        self.now = now
        self.name = name_of(server, options)
        self.record: Record | None = None
        self.registers_anew = False
        self._given_up: set[tuple[str, ...]] = set()

    async def current(self) -> Tokens | None:
        """The tokens to send, renewed when they are about to end; None when nobody has logged in."""
        if self.record is None:
            self.record = await self.store.read(self.name)
        entry = self.record.entry if self.record else None
        if entry is None or entry.tokens is None:
            return None
        return entry.tokens if entry.tokens.lasts(self.now()) else await self.renew(entry)

    async def challenged(self, challenge: Challenge, used: str, may_renew: bool) -> tuple[Tokens, bool]:
        """Tokens after a 401 to those in use, and whether they were granted anew. Raises `OAuthFault`."""
        secure(self.server, f"The server {plain(self.server_name)}")
        self.record = await self.store.read(self.name)
        entry = self.record.entry if self.record else None
        if entry and entry.tokens and entry.tokens.access != used and entry.tokens.lasts(self.now()):
            return entry.tokens, False  # another task or process was faster
        resource = await self.find(challenge)
        issuer = self.choose(resource)
        if entry and same_issuer(entry.issuer, issuer) and entry.tokens and may_renew:
            renewed = await self.renew(entry)
            if renewed is not None:
                return renewed, False
        return await self.obtain(resource, issuer, challenge.scope), True

    async def widened(self, challenge: Challenge, used: str) -> Tokens:
        """Tokens with the scopes a 403 asks for besides those there are. Raises `OAuthFault`."""
        secure(self.server, f"The server {plain(self.server_name)}")
        self.record = await self.store.read(self.name)
        entry = self.record.entry if self.record else None
        if (
            entry
            and entry.tokens
            and entry.tokens.access != used
            and {*challenge.scope} <= {*entry.tokens.scope}
        ):
            return entry.tokens
        if challenge.scope in self._given_up:
            raise self.too_narrow(challenge)
        resource = await self.find(challenge)
        return await self.obtain(resource, self.choose(resource), challenge.scope)

    def too_narrow(self, challenge: Challenge) -> OAuthFault:
        """The end of widening; the same is not asked of a person again by this process."""
        self._given_up.add(challenge.scope)
        wanted = f" ({plain(' '.join(challenge.scope))})" if challenge.scope else ""
        return OAuthFault(
            f"{plain(self.server_name)} says that the login is not wide enough{wanted}, whatever it was granted."
        )

    async def renew(self, entry: Entry) -> Tokens | None:
        """New tokens for a refresh token, asked for once among all processes; None when a person is needed."""
        tokens: Tokens | None = None
        async with self.store.alone(self.name, "refresh", LOCK_WITHIN_S):
            record = self.record = await self.store.read(self.name)
            stored = record.entries.get(entry.issuer) if record else None
            if record is not None and stored is not None and stored.tokens is not None:
                tokens = stored.tokens
                if entry.tokens is not None and tokens.access == entry.tokens.access:
                    # A refresh token that was sent may be spent: the answer is waited for and kept.
                    with anyio.CancelScope(shield=True):
                        tokens = await self._renewed(record, stored, tokens)
        return tokens

    async def _renewed(self, record: Record, entry: Entry, old: Tokens) -> Tokens | None:
        try:
            tokens = await self._fresh(entry, old)
        except Refused as error:
            if error.error in DEAD:
                lost = error.error == "invalid_client" and entry.client.kind == "registered"
                await self._keep(record.having(without(entry, client_lost=lost)))
            return None
        if tokens is not None:
            await self._keep(record.having(msgspec.structs.replace(entry, tokens=tokens)))
        return tokens

    async def _fresh(self, entry: Entry, old: Tokens) -> Tokens | None:
        form = {"resource": entry.resource}
        if self.options.grant == "client_credentials":
            form |= {"grant_type": "client_credentials"}
            if entry.asked_scope:
                form["scope"] = " ".join(entry.asked_scope)
        elif old.refresh:
            form |= {"grant_type": "refresh_token", "refresh_token": old.refresh}
        else:
            return None
        got = await token(
            self.wire, entry.token_endpoint, entry.issuer, entry.client, self.options, form, self.now
        )
        return msgspec.structs.replace(got, refresh=got.refresh or old.refresh, scope=got.scope or old.scope)

    async def _keep(self, record: Record) -> None:
        """Remember it here in any case: what was rotated must not be lost to a full disk as well."""
        self.record = record
        try:
            await self.store.write(self.name, record)
        except ConfigError as error:
            log.warning("The login of %s could not be saved: %s", plain(self.server_name), error)

    async def find(self, challenge: Challenge) -> Resource:
        """The server as a protected resource; without metadata, as servers of 2025-03-26 were."""
        found = await resource_of(self.wire, self.server, challenge.metadata)
        if found is not None:
            return found
        origin = f"{self.server.scheme}://{self.server.authority}"
        return Resource(
            str(self.server) if self.server.target != "/" else origin, (origin,), is_published=False
        )

    def choose(self, resource: Resource) -> str:
        """Which authorization server to use: the configured, a known, or else the first. Raises `OAuthFault` where a
        configured client would be shown to another than it belongs to."""
        if self.options.issuer:
            for one in resource.issuers:
                if same_issuer(one, self.options.issuer):
                    return one
            raise OAuthFault(
                f"{plain(self.server_name)} takes its tokens from {plain(resource.issuers[0])}, not from the configured issuer."
            )
        known = list(self.record.entries) if self.record else []
        if self.record and self.record.current:
            known.insert(0, self.record.current)
        for mine in known:
            for one in resource.issuers:
                if same_issuer(one, mine):
                    return one
        if known and self.options.client_id:
            raise OAuthFault(
                f"{plain(self.server_name)} has changed its authorization server to {plain(resource.issuers[0])}; the "
                f"configured client belongs to {plain(known[0])}. If that is right: {self.command('logout')}, and log in."
            )
        return resource.issuers[0]

    def command(self, verb: str) -> str:
        """What to run."""
        return f"`jaato mcp {verb} {shlex.quote(plain(self.server_name))}`"

    async def obtain(self, resource: Resource, issuer: str, asked: tuple[str, ...]) -> Tokens:
        """A new grant. Raises `LoginNeeded` where a person is needed and there is none, `OAuthFault`."""
        try:
            authority = await authority_of(self.wire, issuer, guessed=not resource.is_published)
        except NoMetadata:
            if resource.is_published:
                raise
            raise OAuthFault(
                f"{plain(self.server_name)} wants to know who asks, and does not say where to log in. If it takes a "
                "key, put it into its headers, as Authorization."
            ) from None
        before = self.record.entries.get(authority.issuer) if self.record else None
        scope = self.scope_for(resource, asked, before)
        if self.options.grant == "client_credentials":
            client = configured(self.options, authority)
            form = {"grant_type": "client_credentials", "resource": resource.identifier}
            if scope:
                form["scope"] = " ".join(scope)
            return await self._grant(authority, resource, client, scope, form)
        if "offline_access" in authority.scopes and scope:
            scope = scopes_of([*scope, "offline_access"])
        if self.ask is None:
            if before is not None and scope != before.asked_scope:
                await self.save(msgspec.structs.replace(before, asked_scope=scope))
            await self.store.note(self.name, needed=True)
            more = before.tokens is not None and bool(asked) if before else False
            what = f"a wider login ({plain(' '.join(asked))})" if more else "you to log in"
            raise LoginNeeded(f"{plain(self.server_name)} needs {what}: run {self.command('login')}.")
        seen = before.tokens.access if before and before.tokens else ""
        async with self.store.alone(self.name, "login", self.within_s + LOCK_WITHIN_S):
            self.record = await self.store.read(self.name)
            before = self.record.entries.get(authority.issuer) if self.record else None
            tokens = before.tokens if before else None
            if tokens and tokens.access != seen and tokens.lasts(self.now()) and {*asked} <= {*tokens.scope}:
                return tokens  # somebody has logged in while we waited
            consent = Consent(
                self.server_name, self.wire, self.options, authority, self.ask, self.within_s, self.now
            )
            known = before.client if before and not self.registers_anew else None
            client, form = await consent.given(resource.identifier, scope, known)
            return await self._grant(authority, resource, client, scope, form)

    def scope_for(self, resource: Resource, asked: tuple[str, ...], before: Entry | None) -> list[str]:
        """What to ask for: what was asked before and what is asked now; at first what is configured, asked, offered."""
        if before is not None:
            granted = before.tokens.scope if before.tokens else []
            return scopes_of([*before.asked_scope, *granted, *asked])
        return scopes_of([*self.options.scopes, *asked]) or scopes_of(list(resource.scopes))

    async def _grant(
        self, authority: Authority, resource: Resource, client: Client, scope: list[str], form: dict[str, str]
    ) -> Tokens:
        endpoint = str(authority.token_endpoint)
        with anyio.CancelScope(shield=True):
            try:
                tokens = await token(
                    self.wire, endpoint, authority.issuer, client, self.options, form, self.now
                )
            except Refused as error:
                if error.error == "invalid_client" and client.kind == "registered":
                    await self.store.forget(self.name)
                raise
            entry = Entry(
                issuer=authority.issuer,
                resource=resource.identifier,
                token_endpoint=endpoint,
                client=client,
                revocation_endpoint=str(authority.revocation_endpoint or ""),
                asked_scope=scope,
                tokens=msgspec.structs.replace(tokens, scope=tokens.scope or scope),
            )
            await self.save(entry)
        assert entry.tokens is not None
        return entry.tokens

    async def save(self, entry: Entry) -> None:
        """Keep a login beside those there are. Raises `ConfigError` when the disk refuses."""
        async with self.store.alone(self.name, "refresh", LOCK_WITHIN_S):
            record = await self.store.read(self.name) or Record(server=str(self.server))
            self.record = record.having(entry)
            await self.store.write(self.name, self.record)
        if entry.tokens is not None:
            await self.store.note(self.name, needed=False)


def without(entry: Entry, *, client_lost: bool) -> Entry:
    """A login whose tokens are void, and whose client as well if that is `client_lost`."""
    client = msgspec.structs.replace(entry.client, redirect_uri="") if client_lost else entry.client
    return msgspec.structs.replace(entry, tokens=None, client=client)
