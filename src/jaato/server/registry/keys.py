"""API keys of a registry: scopes, visible tools, rate limits, expiry; and the guards of a registry with its own address."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import translate
from functools import partial
from pathlib import Path
from typing import get_args

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.server.auth.gate import AllowedHosts, Authenticator, Throttle, network_of
from jaato.server.auth.identity import Admission, TokenVerifier
from jaato.server.auth.tokens import SecretEntry, SecretFile, SecretIndex, digest_of
from jaato.server.http.asgi import Refused, Scope, bearer, values
from jaato.server.registry.limits import Rate, RateLimiter, parse_rate
from jaato.server.registry.requests import Headers, Principal, Spend, Visibility, is_open
from jaato.server.registry.requests import Scope as KeyScope
from jaato.server.registry.responses import REALM, seconds
from jaato.settings import Settings

LOG = logger("server.registry")
NAME = "registry-keys.json"
MAX_KEYS = 1_000
MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 128
PREFIX = "jrk_"
"""The prefix of every key, by which scanners find leaked ones."""
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PATHS = re.compile(r"/v1/tools($|[/:])")
SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)
LOOK_EVERY_S = 0.25
"""The interval at which a first key is looked for."""
UNSAID = "Give a key: Authorization: Bearer KEY."
EXPIRED = "The time of this key is over; ask for another."
WRONG = "This key is not known here, or no longer."
OFTEN = "Too many wrong keys; try again in a second."


class KeyEntry(SecretEntry, frozen=True, omit_defaults=True, kw_only=True):
    """One key: what it allows, of which tools (none named: all), and how often."""

    scopes: list[KeyScope]
    tools: list[str] = []
    rate: str | None = None


@dataclass(frozen=True, slots=True)
class KeyAdmission:
    """A principal admitted by its key, and the rate-limit headers of its responses."""

    principal: Principal
    rate_headers: Headers = field(default_factory=list)
    spend: Spend | None = None


class Keys:
    """The keys of one user. The file is checked with every request, so that a removed key stops working at once."""

    def __init__(self, state_dir: Path, rate: Rate | None = None) -> None:
        file = keys_in(state_dir)
        self._given = SecretIndex(file, 0.0, "No key of the registry's lets anybody in")
        self._begun = SecretIndex(file, LOOK_EVERY_S, "No key of the registry's lets anybody in")
        self._known: dict[str, tuple[KeyEntry, Principal, Rate | None]] = {}
        self._asked = RateLimiter("key")
        self._rate = rate

    @property
    def is_required(self) -> bool:
        """Whether a key is required: the file exists, also if it is empty or damaged."""
        self._begun.refresh()
        return self._begun.exists

    def authenticate(self, key: str) -> KeyAdmission | None:
        """Admit the principal of a key; None if the key is unknown, expired or was revoked.

        Raises `Refused` with 429 for one that has asked too often.
        """
        digest = digest_of(key)
        entry = self._given.find(digest)
        if entry is None:
            return None
        known = self._known.get(digest)
        if known is None or known[0] is not entry:
            if len(self._known) > MAX_KEYS:
                self._known.clear()
            known = self._known[digest] = (entry, principal_of(entry), key_rate(entry) or self._rate)
        if known[2] is None:
            return KeyAdmission(known[1])
        wait_s, rate_headers = self._asked.take(digest, known[2])
        if wait_s:
            raise too_often(wait_s, rate_headers)
        return KeyAdmission(known[1], rate_headers, partial(self._asked.take, digest, known[2]))

    def verify_key(self, path: str, key: str) -> KeyAdmission | None:
        """The same, where the paths are those of other doors too: keys are for the registry's."""
        return self.authenticate(key) if PATHS.match(path) else None

    def is_valid(self, admission: KeyAdmission) -> bool:
        """Whether the key of a client is still valid."""
        entry = self._given.find(admission.principal.key.removeprefix("key "))
        return entry is not None and principal_of(entry) == admission.principal

    def is_expired(self, key: str) -> bool:
        """Whether a key has expired."""
        entry = self._given.find(digest_of(key), or_expired=True)
        return entry is not None and entry.expired


def default_rate(settings: Settings) -> Rate | None:
    """The default rate limit of the settings. Raises `ConfigError`."""
    text = settings["tool_registry_rate"]
    return None if text is None else parse_rate(text)


def principal_of(entry: KeyEntry) -> Principal:
    """The principal of a key."""
    visibility = Visibility(tuple(entry.tools)) if entry.tools else None
    return Principal(f"key {entry.sha256}", f"key {entry.name}", frozenset(entry.scopes), visibility)


def key_rate(entry: KeyEntry) -> Rate | None:
    """The rate limit of a key; the lowest if it is invalid."""
    try:
        return None if entry.rate is None else parse_rate(entry.rate)
    except ConfigError:
        return Rate(1, 86_400)


def too_often(wait_s: float, rate_headers: Headers) -> Refused:
    """The refusal of a request beyond the rate limit."""
    after = seconds(wait_s)
    headers = {name.decode(): value.decode() for name, value in rate_headers}
    return Refused(429, f"Too many requests; come back in {after} s.", **{"retry-after": after}, **headers)


def keys_in(state_dir: Path) -> SecretFile[KeyEntry]:
    """The file of keys."""
    return SecretFile(state_dir / NAME, "keys", "key", KeyEntry, MAX_KEYS)


def add_key(
    state_dir: Path,
    name: str,
    scopes: Iterable[str],
    tools: Iterable[str] = (),
    expires: float | None = None,
    rate: str | None = None,
) -> str:
    """Give out a key; it is shown now and never again. Raises `ConfigError` for a name that is taken, and for what is no
    scope, pattern or rate."""
    if KEY_NAME.fullmatch(name) is None:
        raise ConfigError(f"{name[:80]!r} is no name of a key: take up to 64 letters, digits, dots, _ and -.")
    asked = set(scopes)
    if unknown := asked - set(SCOPES):
        raise ConfigError(f"{min(unknown)[:40]!r} is no scope; there are {', '.join(SCOPES)}.")
    if not asked:
        raise ConfigError("A key without a scope allows nothing: --scope tools:read,tools:invoke.")
    patterns = list(tools)
    if len(patterns) > MAX_PATTERNS or any(not 0 < len(one) <= MAX_PATTERN_CHARS for one in patterns):
        raise ConfigError(
            f"A key has at most {MAX_PATTERNS} patterns of {MAX_PATTERN_CHARS} characters; each has at least one."
        )
    for one in patterns:
        re.compile(translate(one))
    if rate is not None:
        parse_rate(rate)
    allowed = [scope for scope in SCOPES if scope in asked]
    return keys_in(state_dir).add(
        name,
        lambda digest: KeyEntry(
            name=name,
            sha256=digest,
            created=time.time(),
            expires=expires,
            scopes=allowed,
            tools=patterns,
            rate=rate,
        ),
        PREFIX,
    )


class Guard(Authenticator):
    """Admits requests by their head."""

    rechecks = False

    def is_admitted(self, _admission: Admission) -> bool:
        """An admission holds for one request."""
        return True


@dataclass(frozen=True, slots=True)
class AllowAnyone(Guard):
    """Admits requests without a key, if `Host` and `Origin` are allowed, within the rate limit."""

    hosts: AllowedHosts
    rate: Rate | None = None
    asked: RateLimiter = field(default_factory=lambda: RateLimiter("address"))

    async def authenticate(self, scope: Scope) -> Admission:
        """Authenticate a request. Raises `Refused`."""
        self.hosts.check(scope)
        if self.rate is None or is_open(scope["raw_path"], scope["method"]):
            return Admission(None, key=ANONYMOUS)
        network = network_of(peer_of(scope))
        wait_s, rate_headers = self.asked.take(network, self.rate)
        if wait_s:
            raise too_often(wait_s, rate_headers)
        return Admission(
            None, key=KeyAdmission(Principal(), rate_headers, partial(self.asked.take, network, self.rate))
        )


ANONYMOUS = KeyAdmission(Principal())


@dataclass(frozen=True, slots=True)
class RequireKey(Guard):
    """Admits requests with the owner's token or a key. A valid one is never throttled for wrong attempts."""

    hosts: AllowedHosts
    tokens: TokenVerifier
    keys: Keys | None = None
    throttle: Throttle = field(default_factory=Throttle)

    async def authenticate(self, scope: Scope) -> Admission:
        """Authenticate a request. Raises `Refused`."""
        self.hosts.check(scope)
        if is_open(scope["raw_path"], scope["method"]):
            return Admission(None, key=ANONYMOUS)
        token = bearer(values(scope, b"authorization"))
        if not token:
            raise Refused(401, UNSAID, **{"www-authenticate": REALM})
        if self.keys is not None and (admission := self.keys.authenticate(token)) is not None:
            return Admission(None, key=admission)
        held = self.tokens.verify(token)
        if held is not None:
            return Admission(held)
        self.throttle.check(peer_of(scope), OFTEN)
        raise wrong(token, self.keys)


@dataclass(frozen=True, slots=True)
class AllowUntilKeys(Guard):
    """Lets in anyone until the first key is made, or there is more (`grown`) than what the operator has named; then who has
    a key."""

    anyone: AllowAnyone
    keys: Keys
    keyed: Callable[[], RequireKey]
    grown: Callable[[], bool] = bool

    async def authenticate(self, scope: Scope) -> Admission:
        """Authenticate a request. Raises `Refused`."""
        if not (self.keys.is_required or self.grown()):
            return await self.anyone.authenticate(scope)
        try:
            keyed = self.keyed()
        except (ConfigError, OSError) as error:
            LOG.warning("No client can be authenticated: %s", error)
            raise Refused(
                503, "No client can be authenticated now; the registry's log has the reason."
            ) from None
        return await keyed.authenticate(scope)


def peer_of(scope: Scope) -> str:
    """The address of the client; empty for the Unix socket."""
    return str((scope.get("client") or ("",))[0])


def wrong(token: str, keys: Keys | None) -> Refused:
    """The refusal of an invalid token (RFC 6750, 3)."""
    words = EXPIRED if keys is not None and keys.is_expired(token) else WRONG
    challenge = f'{REALM}, error="invalid_token", error_description="{words}"'
    return Refused(401, words, **{"www-authenticate": challenge})
