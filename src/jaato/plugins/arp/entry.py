"""One entry of `registries.json` as a checked configuration, and the secrets it asks for filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError, ToolError
from jaato.plugins.arp.config import RegistryConfig
from jaato.tools.address import Url, parse_url
from jaato.tools.configured import PLACE, Malformed, Scope, check_name, digest_of, switch, value_of
from jaato.tools.secret_words import configured_secrets
from jaato.tools.unseen import hidden, strings_in

KEYS = ("url", "token", "headers", "enabled", "timeout_s", "prefix", "allow_private")
MAX_NAME_CHARS = 60
MAX_TEXT_CHARS = 8_192
MAX_HEADERS = 30
MAX_TIMEOUT_S = 3_600.0
PREFIX = re.compile(r"[A-Za-z0-9_-]{1,24}")
KEYRING = "keyring:"
SERVICE = "jaato-registry"
"""Under what name the system keyring has the tokens of registries."""
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
RESERVED_HEADERS = frozenset(
    "accept accept-encoding connection content-encoding content-length content-type expect host idempotency-key "
    "if-none-match keep-alive te traceparent trailer transfer-encoding upgrade x-request-id".split()
)
RESERVED = "mcp__"
"""How the names of tools of MCP servers begin."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Where a registry is and what is sent with every request, secrets and all."""

    base: Url
    headers: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str]


def registry_of(name: str, entry: Any, scope: Scope, origin: Path) -> RegistryConfig:
    """The registry an entry describes. Raises `Malformed` saying what is wrong with it."""
    check_name(name, MAX_NAME_CHARS)
    if not isinstance(entry, dict):
        raise Malformed('must be an object such as {"url": "https://tools.example.com"}')
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise Malformed(f"has {unknown[0][:40]!r}, which is not known here; there are {', '.join(KEYS)}")
    unseen = sorted({char for text in strings_in(entry) for char in (*hidden(text), *controls(text))})
    if unseen:
        raise Malformed(f"holds invisible characters ({', '.join(unseen[:5])}); write it without them")
    url, prefix = text_of(entry, "url"), text_of(entry, "prefix")
    if not url:
        raise Malformed('needs a "url" such as https://tools.example.com')
    if not PLACE.search(url):
        base_of(url)
    if prefix and not PREFIX.fullmatch(prefix):
        raise Malformed('needs a "prefix" of at most 24 letters, digits, _ and -')
    begins = prefix or plain_prefix(name)
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
        prefix=begins,
        always=bool(prefix) or scope == "workspace",
        token=text_of(entry, "token"),
        headers=headers_of(entry.get("headers")),
        enabled=switch(entry, "enabled", True),
        timeout_s=seconds_of(entry.get("timeout_s")),
        allow_private=private,
    )


def registry_at(url: str, token: str = "", name: str = "") -> RegistryConfig:
    """A registry that is named by its address alone, for one command or run. Raises `ConfigError`."""
    try:
        name = name or base_of(url).authority[:MAX_NAME_CHARS]
        return registry_of(name, {"url": url, "token": token}, "argument", Path("the command line"))
    except Malformed as error:
        raise ConfigError(f"The address {error}.") from None


def plain_prefix(name: str) -> str:
    """What the names of a registry's tools begin with where it has no prefix of its own."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:24]


def controls(text: str) -> list[str]:
    """Line ends and tabs, which no address, header or name has."""
    return [f"U+{ord(char):04X}" for char in "\r\n\t" if char in text]


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
    return {name: check_header(name, text_of(value, name)) for name in value}


def check_header(name: str, value: str) -> str:
    """The value of a header that can be sent. Raises `Malformed`."""
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise Malformed(f"has a header {name[:80]!r} that cannot be sent")
    if name.lower() in RESERVED_HEADERS:
        raise Malformed(f"sets the header {name!r}, which belongs to the connection; remove it")
    return value


def text_of(entry: Mapping[str, Any], key: str) -> str:
    """A text of bounded length; empty when it is not there."""
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        raise Malformed(f"{key[:80]!r} must be a text of at most {MAX_TEXT_CHARS} characters")
    return value.strip()


def seconds_of(value: Any) -> float:
    """How long a call may take."""
    if value is None:
        return 60.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_S:
        raise Malformed(f"'timeout_s' must be a number of seconds, at most {MAX_TIMEOUT_S:g}")
    return float(value)


def variables_of(config: RegistryConfig) -> list[str]:
    """The names of the variables the entry takes from the user's environment, sorted."""
    texts = [config.url, config.token, *config.headers.values()]
    return sorted({found[1] for text in texts for found in PLACE.finditer(text)})


def filled(config: RegistryConfig, environ: Mapping[str, str]) -> Filled:
    """What a registry is asked with. Only ever for a trusted one: it hands over secrets. May wait for the system keyring.

    Raises `ConfigError` for a variable that is not set, a token that is not there, a value no header can carry.
    """

    def fill(text: str, place: str) -> str:
        return PLACE.sub(lambda found: known_of(config, found, environ, place), text)

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


def known_of(config: RegistryConfig, found: re.Match[str], environ: Mapping[str, str], place: str) -> str:
    """What stands for a variable; it is not looked at again. Raises `ConfigError`."""
    known = value_of(found, environ)
    if known is None:
        raise ConfigError(
            f"The registry {config.name!r} needs the variable {found[1]} ({place} in {config.origin}), which is not set. "
            f"Set it, or write ${{{found[1]}:-default}}."
        )
    return known.strip()


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
