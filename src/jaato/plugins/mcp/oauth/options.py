"""What logging in to a server deals with: its options, clients, tokens, and the errors; none shows a secret."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jaato.errors import ConfigError, ToolError
from jaato.typed_decoding import convert

Method = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
REDIRECT = re.compile(r"http://(127\.0\.0\.1|localhost)(?::([1-9][0-9]{0,4}))?(/[A-Za-z0-9._~/-]*)")
"""Where a browser may bring an answer: host, port, path."""
MAX_SCOPES = 64
MAX_SHOWN = 200


class OAuthFault(ToolError):
    """The server, or who grants its tokens, did not keep to the protocol of logging in."""

    code = "login_failed"


class Unreachable(OAuthFault):
    """A server that the login needs could not be reached; it may work later."""

    code = "login_unreachable"
    retryable = True


class LoginRequired(OAuthFault):
    """A user has to log in, and none can be asked."""

    code = "login_needed"


class Refused(OAuthFault):
    """The authorization server refused; `error` is its error code."""

    def __init__(self, message: str, error: str = "") -> None:
        super().__init__(message)
        self.error = error


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `oauth` part of a server's configuration."""

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    scopes: list[str] = []
    issuer: str | None = None
    redirect_port: int = 0
    redirect_uri: str = ""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    token_endpoint_auth_method: Method | None = None
    private_key: str | None = None
    signing_algorithm: str = "ES256"

    def __repr__(self) -> str:
        return f"Options(grant={self.grant!r})"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A client registration at one authorization server; `redirect_uri` is what a registered one was registered with."""

    client_id: str
    kind: Literal["configured", "document", "registered"]
    method: Method = "none"
    secret: str = ""
    secret_expires_at: float = 0
    redirect_uri: str = ""

    def __repr__(self) -> str:
        return f"Client({self.kind})"

    def is_valid(self, now: float) -> bool:
        """Whether its secret is good for another minute; 0 is for ever."""
        return not self.secret_expires_at or now < self.secret_expires_at - 60


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What was granted, and when by this machine's clock; without `expires_at` it lasts until it is refused."""

    access: str
    refresh: str = ""
    scope: list[str] = []
    obtained_at: float = 0
    expires_at: float | None = None

    def __repr__(self) -> str:
        return "Tokens()"

    def is_valid(self, now: float) -> bool:
        """Whether it is worth sending: a minute, or a tenth of its life, is left for clocks that differ.

        A clock that was set back says nothing; then the server decides.
        """
        if self.expires_at is None or now < self.obtained_at:
            return True
        margin = min(60.0, (self.expires_at - self.obtained_at) / 10)
        return now < self.expires_at - margin


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A login at one authorization server: where its tokens come from, for what, and the tokens."""

    issuer: str
    resource: str
    token_endpoint: str
    client: Client
    revocation_endpoint: str = ""
    asked_scope: list[str] = []
    tokens: Tokens | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All logins of one server with one configured client, by issuer; `current` is the one in use."""

    server: str
    current: str = ""
    entries: dict[str, Entry] = {}

    @property
    def entry(self) -> Entry | None:
        """The login in use."""
        return self.entries.get(self.current)

    def with_entry(self, entry: Entry) -> Record:
        """The same with this login, which is in use from now on."""
        return msgspec.structs.replace(
            self, current=entry.issuer, entries={**self.entries, entry.issuer: entry}
        )


def options_of(given: Any, server: str) -> Options:
    """The options from a configuration, in snake or camel case. Raises `ConfigError` that shows no value."""
    if given is None or given is True:
        return Options()
    raw = msgspec.to_builtins(given)
    if not isinstance(raw, Mapping):
        raise ConfigError(f'{server}: oauth is an object, as in {{"client_id": "…"}}.')
    names = {"callback_port": "redirect_port", "scope": "scopes", "metadata_url": "client_metadata_url"}
    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = re.sub(r"(?<=[a-z])([A-Z])", lambda hit: "_" + hit[1].lower(), str(key))
        if value not in ("", None) and name != "enabled":
            found[names.get(name, name)] = value
    if isinstance(found.get("scopes"), str):
        found["scopes"] = found["scopes"].split()
    try:
        options = convert(found, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{server}: oauth: {error}.") from None
    check_options(options, server)
    return options


def check_options(options: Options, server: str) -> None:
    """Raise `ConfigError` for options that contradict each other."""
    if options.client_metadata_url and not re.fullmatch(
        r"https://[^/?#@\s]+/[^#\s]+", options.client_metadata_url
    ):
        raise ConfigError(f"{server}: oauth.client_metadata_url is an https URL with a path.")
    if options.redirect_uri and not REDIRECT.fullmatch(options.redirect_uri):
        raise ConfigError(
            f"{server}: oauth.redirect_uri is http://127.0.0.1 or http://localhost, with a path."
        )
    if not 0 <= options.redirect_port < 65_536:
        raise ConfigError(f"{server}: oauth.redirect_port is from 1 to 65535, or 0 for any.")
    if (options.client_secret or options.private_key) and not options.client_id:
        raise ConfigError(f"{server}: oauth.client_id is missing; a secret alone does not name the client.")
    if options.grant == "client_credentials" and not (options.client_secret or options.private_key):
        raise ConfigError(f"{server}: oauth.grant client_credentials needs client_id and client_secret.")
    if len(scopes_of(options.scopes)) != len(options.scopes):
        raise ConfigError(f"{server}: oauth.scopes holds something that is no scope.")


def scopes_of(given: Any) -> list[str]:
    """The scopes in a list or a text with spaces, each once; what can be no scope is left out."""
    words = given.split(" ") if isinstance(given, str) else given if isinstance(given, list) else []
    kept = [word for word in words if isinstance(word, str) and SCOPE.fullmatch(word)]
    return list(dict.fromkeys(kept))[:MAX_SCOPES]


def plain(text: Any) -> str:
    """Untrusted text as it may be shown: one short line, no control, invisible or directional characters."""
    if not isinstance(text, str):
        return ""
    text = text[: MAX_SHOWN * 4]
    kept = "".join(
        " " if mark.isspace() else mark
        for mark in text
        if mark.isspace() or unicodedata.category(mark)[0] != "C"
    )
    kept = " ".join(kept.split())
    return kept if len(kept) <= MAX_SHOWN else kept[:MAX_SHOWN] + "…"
