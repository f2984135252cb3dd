"""The registries a user and a workspace have configured, two files named `registries.json`, and the secrets they ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jaato.errors import ConfigError, ToolError
from jaato.tools.address import Url, parse_url
from jaato.tools.remote.config_file import SourceKind
from jaato.tools.remote.fields import (
    VARIABLE,
    JsonObject,
    Malformed,
    Scope,
    SourceConfig,
    ascii_name,
    check_header,
    check_name,
    check_shape,
    check_visible,
    digest_of,
    switch,
    text_of,
)
from jaato.tools.remote.trust import PLAIN_HTTP, described_values, odd_letters
from jaato.tools.secret_words import configured_secrets
from jaato.tools.unseen import strings_in, visible

FILE = "registries.json"
WORKSPACE_FILE = f".jaato/{FILE}"
KEYS = ("url", "token", "headers", "enabled", "timeout_s", "prefix", "allow_private")
MAX_NAME_CHARS = 60
MAX_TEXT_CHARS = 8_192
MAX_HEADERS = 30
MAX_TIMEOUT_S = 3_600.0
PREFIX = re.compile(r"[A-Za-z0-9_-]{1,24}")
KEYRING = "keyring:"
SERVICE = "jaato-registry"
"""Under what name the system keyring has the tokens of registries."""
RESERVED = "mcp__"
"""How the names of tools of MCP servers begin."""


class RegistryConfig(SourceConfig, frozen=True, kw_only=True):
    """One registry as written, its `${VAR}` not filled in (`expand_variables` does that, for a trusted one only).

    `prefix` is what the names of its tools begin with; `always` says whether they do so also where no other tool has the name.
    """

    NOUN: ClassVar[str] = "registry"
    COMMAND: ClassVar[str] = "registry"

    url: str
    prefix: str
    always: bool = False
    token: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = 60.0
    allow_private: bool = False

    def values(self) -> list[str]:
        """Every text in which a variable is filled in."""
        return [self.url, self.token, *self.headers.values()]

    @property
    def marks(self) -> tuple[str, ...]:
        """How the prefixed names of its tools begin, as names are compared."""
        return (f"{self.prefix}__".casefold(),)


@dataclass(frozen=True, slots=True)
class Filled:
    """Where a registry is and what is sent with every request, secrets and all."""

    base: Url
    headers: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str]


def parse_registry(name: str, entry: Any, scope: Scope, origin: Path) -> RegistryConfig:
    """The registry an entry describes. Raises `Malformed` saying what is wrong with it."""
    check_name(name, MAX_NAME_CHARS)
    if not isinstance(entry, JsonObject):
        raise Malformed('must be an object such as {"url": "https://tools.example.com"}')
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise Malformed(f"has {unknown[0][:40]!r}, which is not known here; there are {', '.join(KEYS)}")
    check_shape(entry)
    check_visible(list(strings_in(entry)), also="\r\n\t")
    url, token, prefix = (
        text_of("" if entry.get(key) is None else entry[key], key, MAX_TEXT_CHARS).strip()
        for key in ("url", "token", "prefix")
    )
    if not url:
        raise Malformed('needs a "url" such as https://tools.example.com')
    if not VARIABLE.search(url):
        base_of(url)
    if prefix and not PREFIX.fullmatch(prefix):
        raise Malformed('needs a "prefix" of at most 24 letters, digits, _ and -')
    begins = prefix or ascii_name(name)[:24]
    if f"{begins}__".casefold().startswith(RESERVED):
        raise Malformed(f"would have the prefix {begins!r}, as tools of MCP servers have it; give it another")
    private = switch(entry, "allow_private", scope != "workspace")
    if private and scope == "workspace":
        raise Malformed(
            '"allow_private" counts only in your own file; your setting allow_hosts can name the host'
        )
    return RegistryConfig(
        name=name,
        url=url,
        scope=scope,
        origin=origin,
        digest=digest_of([scope, "" if scope == "user" else str(origin), name, entry]),
        disabled=not switch(entry, "enabled", True),
        prefix=begins,
        always=bool(prefix) or scope == "workspace",
        token=token,
        headers=headers_of(entry.get("headers")),
        timeout_s=seconds_of(entry.get("timeout_s")),
        allow_private=private,
    )


REGISTRIES: SourceKind[RegistryConfig] = SourceKind(
    RegistryConfig, ("registries",), '{"url": …}', 100, "registries-edit", parse_registry, unique=True
)


def registry_from_url(url: str, token: str = "", name: str = "") -> RegistryConfig:
    """A registry that is named by its address alone, for one command or run. Raises `ConfigError`."""
    try:
        name = name or base_of(url).authority[:MAX_NAME_CHARS]
        entry = JsonObject([("url", url), ("token", token)])
        return parse_registry(name, entry, "argument", Path("the command line"))
    except Malformed as error:
        raise ConfigError(f"The address {error}.") from None


def base_of(url: str) -> Url:
    """The address below which `/v1/tools` is. Raises `Malformed`."""
    try:
        base = parse_url(url)
    except ToolError as error:
        raise Malformed(f"has a url that cannot be used: {str(error).removesuffix('.')}") from None
    if "?" in base.target:
        raise Malformed("has a query in its url; put keys into headers")
    path = base.target.rstrip("/").removesuffix("/v1/tools")
    return base._replace(target=path.rstrip("/"))


def target_of(config: RegistryConfig) -> str:
    """Where a registry is, as it may be shown."""
    return str(base_of(config.url)) if "${" not in config.url else config.url


def headers_of(value: Any) -> dict[str, str]:
    """The headers of an entry."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_HEADERS:
        raise Malformed(f'"headers" must be an object of at most {MAX_HEADERS} texts')
    return {
        name: check_header(name, text_of(text, name, MAX_TEXT_CHARS).strip()) for name, text in value.items()
    }


def seconds_of(value: Any) -> float:
    """How long a call may take."""
    if value is None:
        return 60.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_S:
        raise Malformed(f"'timeout_s' must be a number of seconds, at most {MAX_TIMEOUT_S:g}")
    return float(value)


def expand_variables(config: RegistryConfig, environ: Mapping[str, str]) -> Filled:
    """What a registry is asked with. Only ever for a trusted one: it hands over secrets. May wait for the system keyring.

    Raises `ConfigError` for a variable that is not set, a token that is not there, a value no header can carry.
    """
    stripped = {name: environ.get(name, "").strip() for name in config.variables() if name in environ}

    def fill(text: str, place: str) -> str:
        return config.expand(text, place, stripped)

    try:
        base = base_of(fill(config.url, "url"))
        headers = {
            name: check_header(name, fill(value, f"headers.{name}")) for name, value in config.headers.items()
        }
        token = fill(config.token, "token")
        if token.startswith(KEYRING):
            token = from_keyring(config, token.removeprefix(KEYRING).strip())
        if token:
            check_header("Authorization", token)
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {token}"
    except Malformed as error:
        raise ConfigError(f"The registry {config.name!r} in {config.origin} {error}.") from None
    return Filled(base, tuple(headers.items()), configured_secrets(headers))


def from_keyring(config: RegistryConfig, name: str) -> str:
    """A token of the system keyring, saved as `keyring set jaato-registry NAME`. Raises `ConfigError`."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(
            f"The token of the registry {config.name!r} is in the system keyring; install it: "
            "pip install 'jaato[keyring]'"
        ) from None
    try:
        found = keyring.get_password(SERVICE, name)
    except KeyringError as error:
        raise ConfigError(f"The system keyring does not answer: {error}. Unlock it.") from None
    if not found:
        raise ConfigError(
            f"The system keyring has no token {name!r} for the registry {config.name!r}; save it with "
            f"`keyring set {SERVICE} {name}`."
        )
    return found


def describe(config: RegistryConfig) -> list[tuple[str, str]]:
    """What a person must see before trusting a registry: what is reached, and what it is given."""
    rows = [("reaches", visible(config.url)), ("as", f"{config.prefix}__…")]
    if config.token:
        rows.append(("sends", f"Authorization: Bearer {visible(config.token)}"))
    if config.token.startswith(KEYRING):
        rows.append(("takes", "that token from your system keyring"))
    rows += described_values(config, config.headers)
    if odd := odd_letters(config.url):
        rows.append(("note", odd))
    return rows + ([("note", PLAIN_HTTP)] if config.url.startswith("http://") else [])
