"""The registries a user and a workspace have configured, two files named `registries.json`, and the secrets they ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from jaato.errors import ConfigError, ToolError
from jaato.tools.invisible_text import escape_all, strings_in
from jaato.tools.network.addresses import Url, parse_url
from jaato.tools.redaction.patterns import find_configured_secrets
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
    convert_entry,
    digest_of,
)
from jaato.tools.remote.trust import SourceTrust

FILE = "registries.json"
WORKSPACE_FILE = f".jaato/{FILE}"
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
    SHORT: ClassVar[str] = "registry"
    COMMAND: ClassVar[str] = "registry"
    KEYS: ClassVar[tuple[str, ...]] = ("registries",)
    LIMIT: ClassVar[int] = 100
    UNIQUE: ClassVar[bool] = True
    LOCK: ClassVar[str] = "registries-edit"
    FILLED: ClassVar[tuple[str, ...]] = ("url", "token", "headers")

    prefix: str
    always: bool = False
    token: str = ""
    timeout_s: float = 60.0
    allow_private: bool = False

    @classmethod
    def parse(cls, name: str, entry: Any, scope: Scope, origin: Path) -> RegistryConfig:
        """The registry an entry describes. Raises `Malformed` saying what is wrong with it."""
        check_name(name, MAX_NAME_CHARS)
        if not isinstance(entry, JsonObject):
            raise Malformed('must be an object such as {"url": "https://tools.example.com"}')
        check_shape(entry)
        check_visible(list(strings_in(entry)), also="\r\n\t")
        given = convert_entry(entry, RegistryEntry)
        url, prefix = given.url.strip(), given.prefix.strip()
        if not url:
            raise Malformed('needs a "url" such as https://tools.example.com')
        if not VARIABLE.search(url):
            base_of(url)
        if prefix and not PREFIX.fullmatch(prefix):
            raise Malformed('needs a "prefix" of at most 24 letters, digits, _ and -')
        begins = prefix or ascii_name(name)[:24]
        if f"{begins}__".casefold().startswith(RESERVED):
            raise Malformed(
                f"would have the prefix {begins!r}, as tools of MCP servers have it; give it another"
            )
        if given.allow_private and scope == "workspace":
            raise Malformed(
                '"allow_private" counts only in your own file; your setting allow_hosts can name the host'
            )
        return cls(
            name=name,
            url=url,
            scope=scope,
            origin=origin,
            digest=digest_of([scope, "" if scope == "user" else str(origin), name, entry]),
            disabled=not given.enabled,
            prefix=begins,
            always=bool(prefix) or scope == "workspace",
            token=given.token.strip(),
            headers={key: check_header(key, value.strip()) for key, value in given.headers.items()},
            timeout_s=given.timeout_s,
            allow_private=scope != "workspace" and given.allow_private is not False,
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """How the prefixed names of its tools begin, as names are compared."""
        return (f"{self.prefix}__".casefold(),)


Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]


class RegistryEntry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry as written; without `allow_private` it is the user's own that may be on a private address."""

    url: Text = ""
    token: Text = ""
    headers: Annotated[dict[str, Text], msgspec.Meta(max_length=MAX_HEADERS)] = {}
    enabled: bool = True
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_S)] = 60.0
    prefix: Text = ""
    allow_private: bool | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """Where a registry is and what is sent with every request, secrets and all."""

    base: Url
    headers: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str]


def registry_from_url(url: str, token: str = "", name: str = "") -> RegistryConfig:
    """A registry that is named by its address alone, for one command or run. Raises `ConfigError`."""
    try:
        name = name or base_of(url).authority[:MAX_NAME_CHARS]
        entry = JsonObject([("url", url), ("token", token)])
        return RegistryConfig.parse(name, entry, "argument", Path("the command line"))
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


def expand_variables(config: RegistryConfig, environ: Mapping[str, str]) -> Filled:
    """What a registry is asked with. Only ever for a trusted one: it hands over secrets. May wait for the system keyring.

    Raises `ConfigError` for a variable that is not set, a token that is not there, a value no header can carry.
    """
    stripped = {name: environ[name].strip() for name in config.variables() if name in environ}
    filled = config.expand(stripped)
    try:
        base, token = base_of(filled["url"]), filled["token"]
        headers = {name: check_header(name, value) for name, value in filled["headers"].items()}
        if token.startswith(KEYRING):
            token = from_keyring(config, token.removeprefix(KEYRING).strip())
        if token:
            check_header("Authorization", token)
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {token}"
    except Malformed as error:
        raise ConfigError(f"The registry {config.name!r} in {config.origin} {error}.") from None
    return Filled(base, tuple(headers.items()), find_configured_secrets(headers))


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


class RegistryTrust(SourceTrust[RegistryConfig]):
    """Trust in the registries of workspaces."""

    def describe(self, config: RegistryConfig) -> list[tuple[str, str]]:
        """What a person must see before trusting a registry."""
        rows = [("reaches", escape_all(config.url)), ("as", f"{config.prefix}__…")]
        if config.token:
            rows.append(("sends", f"Authorization: Bearer {escape_all(config.token)}"))
        if config.token.startswith(KEYRING):
            rows.append(("takes", "that token from your system keyring"))
        return rows + super().describe(config)
