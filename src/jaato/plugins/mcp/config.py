"""The MCP servers a user and a workspace have configured, `~/.mcp.json` and the workspace's `.mcp.json`: entries in the
spellings that tools write, what a server's process may reach, and `${VAR}` filled in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.tools.openings import FULL, WORKSPACE_WRITE
from jaato.tools.remote.config_file import SourceKind
from jaato.tools.remote.fields import (
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
from jaato.tools.secret_words import configured_secrets, like_secret
from jaato.tools.unseen import strings_in, visible

FILE = ".mcp.json"
MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 32_768
MAX_ITEMS = 1_000
MAX_TIMEOUT_S = 86_400.0
MAX_SANDBOX_ITEMS = 100
MAX_SANDBOX_CHARS = 4_096
WARNED = "mcp-unconfined"

Kind = Literal["stdio", "http", "sse"]

KINDS: dict[str, Kind] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}
URL_KEYS = ("url", "serverUrl", "httpUrl", "uri", "endpoint")
COMMAND_KEYS = ("command", "cmd")
ENV_KEYS = ("env", "environment", "envs")
HEADER_KEYS = ("headers", "http_headers")
DIRECTORY_KEYS = ("cwd", "workingDirectory", "working_directory")
START_KEYS = ("start_timeout_s", "startup_timeout_sec")
CALL_KEYS = ("call_timeout_s", "tool_timeout_sec", "timeout")
SANDBOX_KEYS = ("profile", "domains", "paths")
RESERVED_HEADERS = frozenset(
    "connection content-length content-type host te transfer-encoding upgrade".split()
)
DOMAIN = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?")


class ServerConfig(SourceConfig, frozen=True, kw_only=True):
    """One server as written, its `${VAR}` not filled in (`expand_variables` does that, for a trusted server only).

    `identity` stays when the entry is edited. `cwd` is empty for the workspace itself. `oauth` is as written, `sandbox` what
    the entry declares; None where it says nothing.
    """

    NOUN: ClassVar[str] = "MCP server"
    COMMAND: ClassVar[str] = "mcp"

    kind: Kind
    identity: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: dict[str, Any] = {}
    sandbox: SandboxAccess | None = None
    start_timeout_s: float = 30.0
    call_timeout_s: float = 300.0
    idle_timeout_s: float = 600.0

    def values(self) -> list[str]:
        """Every text in which a variable is filled in."""
        texts = [self.command, *self.args, *self.env.values(), self.cwd, self.url]
        return [*texts, *self.headers.values(), *strings_in(self.oauth)]

    @property
    def marks(self) -> tuple[str, ...]:
        """How the names of its tools begin, and the name as a reader could take it for another's."""
        folded = unicodedata.normalize("NFKC", self.name).casefold()
        plain = "".join(letter if letter.isalnum() else "_" for letter in folded)
        return f"{ascii_name(self.name)}__", f"{plain}__"


def parse_server(name: str, entry: Any, scope: Scope, origin: Path) -> ServerConfig:
    """The server an entry describes. Raises `Malformed` saying what is wrong with it."""
    check_name(name, MAX_NAME_CHARS)
    if not isinstance(entry, JsonObject):
        raise Malformed('must be an object such as {"command": "npx", "args": ["-y", "package"]}')
    check_shape(entry)
    kind = kind_of(entry)
    written = [scope, "" if scope == "user" else str(origin), name]
    config = ServerConfig(
        name=name,
        kind=kind,
        scope=scope,
        origin=origin,
        digest=digest_of([*written[:2], entry]),
        identity=digest_of(written),
        oauth=oauth_of(first(entry, ("oauth",), {})),
        start_timeout_s=seconds_of(entry, START_KEYS, 30.0),
        call_timeout_s=seconds_of(entry, CALL_KEYS, 300.0),
        idle_timeout_s=seconds_of(entry, ("idle_timeout_s",), 600.0),
        disabled=switch(entry, "disabled", False) or not switch(entry, "enabled", True),
        **(process_of(entry) if kind == "stdio" else address_of(entry)),
    )
    paths = config.sandbox.paths if config.sandbox else ()
    check_visible([*config.values(), *config.env, *config.headers, *paths])
    return config


SERVERS: SourceKind[ServerConfig] = SourceKind(
    ServerConfig, ("mcpServers", "servers"), "{…}", 500, "mcp-edit", parse_server
)


def kind_of(entry: JsonObject) -> Kind:
    """Which kind of server, by its type or, without one, by what it has."""
    written = first(entry, ("type", "transport"), None)
    if isinstance(written, JsonObject):
        written = first(written, ("type",), None)
    has_command = any(key in entry for key in COMMAND_KEYS)
    has_url = any(key in entry for key in URL_KEYS)
    if has_command and has_url:
        raise Malformed("has both a command and a URL; keep the one that is meant")
    if not has_command and not has_url:
        raise Malformed('needs a "command" (a program to start) or a "url"')
    if written is None:
        return "stdio" if has_command else "http"
    kind = KINDS.get(re.sub(r"[-_ ]", "", written).lower()) if isinstance(written, str) else None
    if kind is None:
        raise Malformed(f"has the type {str(written)[:40]!r}; it is one of stdio, http, sse")
    if (kind == "stdio") != has_command:
        needed = '"command"' if kind == "stdio" else '"url"'
        raise Malformed(f"is of type {kind}, which needs a {needed}")
    return kind


def process_of(entry: JsonObject) -> dict[str, Any]:
    """The command of a server that is started."""
    command = first(entry, COMMAND_KEYS, "")
    args = first(entry, ("args",), [])
    if isinstance(command, list) and command:
        command, args = command[0], [*command[1:], *(args if isinstance(args, list) else [args])]
    if not isinstance(command, str) or not command.strip():
        raise Malformed('needs a "command": the program, as one text')
    if not isinstance(args, list) or len(args) > MAX_ITEMS:
        raise Malformed(f'"args" must be a list of at most {MAX_ITEMS} texts')
    env = texts(first(entry, ENV_KEYS, {}), "env")
    for name in env:
        if not name or "=" in name:
            raise Malformed(f"has {name[:80]!r} in env, which no variable can be called")
    return {
        "command": text_of(command, "command", MAX_TEXT_CHARS),
        "args": tuple(scalar(arg, "args") for arg in args),
        "env": env,
        "cwd": text_of(first(entry, DIRECTORY_KEYS, ""), "cwd", MAX_TEXT_CHARS),
        "sandbox": sandbox_of(entry.get("sandbox")),
    }


def address_of(entry: JsonObject) -> dict[str, Any]:
    """The address of a server that runs elsewhere."""
    if "sandbox" in entry:
        raise Malformed('has a "sandbox", which is for a server that is started, not for a URL; remove it')
    url = text_of(first(entry, URL_KEYS, ""), "url", MAX_TEXT_CHARS).strip()
    if "${" not in url:
        check_url(url)
    headers = texts(first(entry, HEADER_KEYS, {}), "headers")
    token = entry.get("bearer_token_env_var")
    if isinstance(token, str) and token and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    for name, value in headers.items():
        check_header(name, value, RESERVED_HEADERS)
    return {"url": url, "headers": headers}


def check_url(url: str) -> None:
    """Raise `Malformed` for what is no plain http(s) address."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Malformed("has a url that is none; write https://host/path") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\\]", url):
        raise Malformed("needs a url of the form https://host/path")
    if "@" in parts.netloc:
        raise Malformed("has a name or password in its url; put them into headers as ${VAR}")


def oauth_of(value: Any) -> dict[str, Any]:
    """What is said about logging in, as written; a plain switch says nothing."""
    if isinstance(value, bool):
        return {}
    if not isinstance(value, dict):
        raise Malformed('"oauth" must be an object such as {"clientId": "…"}')
    return dict(value)


def sandbox_of(value: Any) -> SandboxAccess | None:
    """The sandbox that an entry declares; None for none. Raises `Malformed`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Malformed(
            '"sandbox" must be an object such as {"profile": "workspace-write", "domains": ["pypi.org"]}'
        )
    unknown = sorted(set(value) - set(SANDBOX_KEYS))
    if unknown:
        raise Malformed(f'"sandbox" has no {unknown[0][:80]!r}; it has {", ".join(SANDBOX_KEYS)}')
    profile = value.get("profile", "workspace-write")
    if profile not in get_args(SandboxProfile):
        known = ", ".join(get_args(SandboxProfile))
        raise Malformed(f'"sandbox.profile" is one of {known}, not {str(profile)[:40]!r}')
    domains, paths = sandbox_list(value, "domains"), sandbox_list(value, "paths")
    if profile != "workspace-write" and (domains or paths):
        raise Malformed(
            f'"sandbox" opens domains and paths with the profile workspace-write only, not with {profile}'
        )
    for domain in domains:
        if not DOMAIN.fullmatch(domain):
            raise Malformed(f'"sandbox.domains" has {domain[:80]!r}; write a host, *.host, host:port, or *')
    for path in paths:
        if not path.startswith(("/", "~/")) or ".." in path.split("/"):
            raise Malformed(
                f'"sandbox.paths" has {path[:80]!r}; write an absolute path, or one that begins with ~/'
            )
    return SandboxAccess(profile, domains, paths)


def sandbox_list(value: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts. Raises `Malformed`."""
    found = value.get(key, [])
    if not isinstance(found, list) or len(found) > MAX_SANDBOX_ITEMS:
        raise Malformed(f'"sandbox.{key}" must be a list of at most {MAX_SANDBOX_ITEMS} texts')
    if any(not isinstance(one, str) or not one or len(one) > MAX_SANDBOX_CHARS for one in found):
        raise Malformed(f'"sandbox.{key}" must be a list of texts, none of them empty')
    return tuple(found)


def first(entry: JsonObject, keys: tuple[str, ...], default: Any) -> Any:
    """The value of the first of these keys that is there and not null."""
    return next((entry[key] for key in keys if entry.get(key) is not None), default)


def seconds_of(entry: JsonObject, keys: tuple[str, ...], default_s: float) -> float:
    """A time; a bare `timeout` of 1,000 or more is milliseconds, as most tools write it."""
    for key in keys:
        value = entry.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise Malformed(f"{key!r} must be a positive number of seconds")
        value_s = value / 1000 if key == "timeout" and value >= 1000 else value
        return float(min(value_s, MAX_TIMEOUT_S))
    return default_s


def texts(value: Any, key: str) -> dict[str, str]:
    """A table of texts; numbers and switches are written as JSON has them."""
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise Malformed(f'"{key}" must be an object of at most {MAX_ITEMS} texts')
    return {name: scalar(member, f"{key}.{name[:80]}") for name, member in value.items()}


def scalar(value: Any, key: str) -> str:
    """A text, or a number or switch as one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else text_of(value, key, MAX_TEXT_CHARS)


def expand_variables(config: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """The server with every `${VAR}`, `${env:VAR}` and `${VAR:-default}` filled in. Raises `ConfigError`."""

    def fill(text: str, place: str) -> str:
        return config.expand(text, place, environ)

    made = msgspec.structs.replace(
        config,
        command=fill(config.command, "command"),
        args=tuple(fill(arg, "args") for arg in config.args),
        env={name: fill(value, f"env.{name}") for name, value in config.env.items()},
        cwd=fill(config.cwd, "cwd"),
        url=fill(config.url, "url"),
        headers={name: fill(value, f"headers.{name}") for name, value in config.headers.items()},
        oauth={
            key: map_strings(value, partial(fill, place=f"oauth.{key}"))
            for key, value in config.oauth.items()
        },
    )
    try:
        if made.kind != "stdio":
            check_url(made.url)
        elif not made.command.strip():
            raise Malformed("has an empty command")
        for name, value in made.headers.items():
            check_header(name, value, RESERVED_HEADERS)
        for text in (made.command, *made.args, *made.env.values(), made.url, *made.headers.values()):
            if len(text) > MAX_TEXT_CHARS or "\0" in text:
                raise Malformed(
                    "has a value that is too long or holds a NUL once its variables are filled in"
                )
    except Malformed as error:
        raise ConfigError(f"The MCP server {config.name!r} in {config.origin} {error}.") from None
    return made


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with its texts changed."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_strings(member, change) for member in value]
        case dict():
            return {key: map_strings(member, change) for key, member in value.items()}
    return value


def secrets_in(config: ServerConfig) -> dict[str, str]:
    """The values of a filled-in entry that nobody else is to see, by name: its variables and headers but those that are
    evidently no secrets, and keys of its login."""
    found = configured_secrets(config.env) | configured_secrets(config.headers)
    return found | {
        name: value
        for name, value in config.oauth.items()
        if name.lower().replace("_", "") in ("clientsecret", "privatekey")
        and isinstance(value, str)
        and like_secret(value)
    }


def access_of(config: ServerConfig, home: Path) -> SandboxAccess:
    """What a server's process may reach. Without a declaration the user's own runs without a sandbox, as it did before
    there was one, and a workspace's may change the workspace and reach no network."""
    if config.sandbox is None:
        return WORKSPACE_WRITE if config.scope == "workspace" else FULL
    paths = tuple(str(home / path[2:]) if path.startswith("~/") else path for path in config.sandbox.paths)
    return SandboxAccess(config.sandbox.profile, config.sandbox.domains, paths)


def describe_sandbox(config: ServerConfig) -> str:
    """The sandbox of a server in a few words, with nothing hidden."""
    access = access_of(config, Path("~"))
    if access.profile == "full":
        return "full: no sandbox, it may do whatever you may"
    if access.profile == "read-only":
        return "read-only: it changes nothing and reaches no network"
    paths = "".join(f", {visible(path)}" for path in access.paths)
    hosts = ", ".join(map(visible, access.domains)) or "no network"
    return f"workspace-write: it may change the workspace{paths}; it reaches {hosts}"


def warn_unconfined(config: ServerConfig, state_dir: Path) -> str:
    """What to say once of a server that runs without a sandbox only because its entry says nothing of one; else empty."""
    if config.kind != "stdio" or config.scope != "user" or config.sandbox is not None:
        return ""
    marker = state_dir / WARNED / config.identity
    if marker.exists():
        return ""
    try:
        marker.parent.mkdir(0o700, parents=True, exist_ok=True)
        marker.touch(0o600)
    except OSError:
        pass  # it is said again
    return (
        f"{config.name} runs without a sandbox, because its entry in {config.origin} declares none. Add "
        '"sandbox": {"profile": "workspace-write", "domains": [the hosts it needs]} to the entry, or '
        '{"profile": "full"} if it is to stay so. This is said once.'
    )
