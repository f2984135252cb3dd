"""The MCP servers a user and a workspace have configured, `~/.mcp.json` and the workspace's `.mcp.json`: entries in the
spellings that tools write, what a server's process may reach, and `${VAR}` filled in."""

# Annotations are not postponed here: msgspec would compile each one as text.

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.tools.invisible_text import escape_all
from jaato.tools.permissions.access import FULL, WORKSPACE_WRITE
from jaato.tools.redaction.patterns import find_configured_secrets, looks_like_secret
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
    convert_entry,
    digest_of,
)

if TYPE_CHECKING:
    from jaato.plugins.mcp.oauth.callback import Ask
    from jaato.tools.processes.sandbox.sandbox import Sandbox

Key = tuple[str, str, str]

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
SPELLINGS = {
    "command": ("command", "cmd"),
    "url": ("url", "serverUrl", "httpUrl", "uri", "endpoint"),
    "env": ("env", "environment", "envs"),
    "headers": ("headers", "http_headers"),
    "cwd": ("cwd", "workingDirectory", "working_directory"),
    "start_timeout_s": ("start_timeout_s", "startup_timeout_sec"),
    "call_timeout_s": ("call_timeout_s", "tool_timeout_sec"),
}
"""How other programs write a field; what comes first counts."""
RESERVED_HEADERS = frozenset(
    "connection content-length content-type host te transfer-encoding upgrade".split()
)
DOMAIN = lazy_pattern(
    r"\*|(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?"
)


Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
Scalar = Text | int | float | bool
Scalars = Annotated[list[Scalar], msgspec.Meta(max_length=MAX_ITEMS)]
Table = Annotated[dict[str, Scalar], msgspec.Meta(max_length=MAX_ITEMS)]
Seconds = Annotated[float, msgspec.Meta(gt=0, lt=1e12)]
Opened = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=MAX_SANDBOX_CHARS)]],
    msgspec.Meta(max_length=MAX_SANDBOX_ITEMS),
]


class SandboxEntry(msgspec.Struct, forbid_unknown_fields=True):
    """The sandbox that an entry declares, as written."""

    profile: Any = "workspace-write"
    domains: Opened = []
    paths: Opened = []


class ServerEntry(msgspec.Struct):
    """An entry in our own spelling. A bare `timeout` of 1,000 or more is milliseconds, as most tools write it; a plain switch
    for `oauth` says nothing."""

    command: Text | Scalars = ""
    args: Scalars = []
    env: Table = {}
    cwd: Text = ""
    url: Text = ""
    headers: Table = {}
    oauth: dict[str, Any] | bool = {}
    sandbox: SandboxEntry | None = None
    start_timeout_s: Seconds = 30.0
    call_timeout_s: Seconds | None = None
    timeout: Seconds = 300.0
    idle_timeout_s: Seconds = 600.0
    disabled: bool = False
    enabled: bool = True
    bearer_token_env_var: str = ""


FIELD_KEYS = {field: SPELLINGS.get(field, (field,)) for field in ServerEntry.__struct_fields__}


class ServerConfig(SourceConfig, frozen=True, kw_only=True):
    """One server as written, its `${VAR}` not filled in (`expand_variables` does that, for a trusted server only).

    `identity` stays when the entry is edited. `cwd` is empty for the workspace itself. `oauth` is as written, `sandbox` what
    the entry declares; None where it says nothing.
    """

    NOUN: ClassVar[str] = "MCP server"
    SHORT: ClassVar[str] = "server"
    COMMAND: ClassVar[str] = "mcp"
    KEYS: ClassVar[tuple[str, ...]] = ("mcpServers", "servers")
    LIMIT: ClassVar[int] = 500
    LOCK: ClassVar[str] = "mcp-edit"
    FILLED: ClassVar[tuple[str, ...]] = ("command", "args", "env", "cwd", "url", "headers", "oauth")

    kind: Kind
    identity: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    oauth: dict[str, Any] = {}
    sandbox: SandboxAccess | None = None
    start_timeout_s: float = 30.0
    call_timeout_s: float = 300.0
    idle_timeout_s: float = 600.0

    @classmethod
    def parse(cls, name: str, entry: Any, scope: Scope, origin: Path) -> "ServerConfig":
        """The server an entry describes. Raises `Malformed` saying what is wrong with it."""
        check_name(name, MAX_NAME_CHARS)
        if not isinstance(entry, JsonObject):
            raise Malformed('must be an object such as {"command": "npx", "args": ["-y", "package"]}')
        check_shape(entry)
        kind = kind_of(entry)
        given = convert_entry(
            {field: first(entry, keys, None) for field, keys in FIELD_KEYS.items()}, ServerEntry
        )
        timeout_s = given.timeout / 1000 if given.timeout >= 1000 else given.timeout
        written = [scope, "" if scope == "user" else str(origin), name]
        config = cls(
            name=name,
            kind=kind,
            scope=scope,
            origin=origin,
            digest=digest_of([*written[:2], entry]),
            identity=digest_of(written),
            oauth=given.oauth if isinstance(given.oauth, dict) else {},
            start_timeout_s=min(given.start_timeout_s, MAX_TIMEOUT_S),
            call_timeout_s=min(given.call_timeout_s or timeout_s, MAX_TIMEOUT_S),
            idle_timeout_s=min(given.idle_timeout_s, MAX_TIMEOUT_S),
            disabled=given.disabled or not given.enabled,
            **(process_of(given) if kind == "stdio" else address_of(given)),
        )
        paths = config.sandbox.paths if config.sandbox else ()
        check_visible([*config.texts(), *paths])
        return config

    @property
    def marks(self) -> tuple[str, ...]:
        """How the names of its tools begin, and the name as a reader could take it for another's."""
        folded = unicodedata.normalize("NFKC", self.name).casefold()
        plain = "".join(letter if letter.isalnum() else "_" for letter in folded)
        return f"{ascii_name(self.name)}__", f"{plain}__"


def kind_of(entry: JsonObject) -> Kind:
    """Which kind of server, by its type or, without one, by what it has."""
    written = first(entry, ("type", "transport"), None)
    if isinstance(written, JsonObject):
        written = first(written, ("type",), None)
    has_command = any(key in entry for key in SPELLINGS["command"])
    has_url = any(key in entry for key in SPELLINGS["url"])
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


def process_of(entry: ServerEntry) -> dict[str, Any]:
    """The command of a server that is started."""
    given = entry.command if isinstance(entry.command, list) else [entry.command]
    command, *more = given or [""]
    if not isinstance(command, str) or not command.strip():
        raise Malformed('needs a "command": the program, as one text')
    for name in entry.env:
        if not name or "=" in name:
            raise Malformed(f"has {name[:80]!r} in env, which no variable can be called")
    return {
        "command": command,
        "args": tuple(map(text_of, [*more, *entry.args])),
        "env": {name: text_of(value) for name, value in entry.env.items()},
        "cwd": entry.cwd,
        "sandbox": sandbox_of(entry.sandbox),
    }


def address_of(entry: ServerEntry) -> dict[str, Any]:
    """The address of a server that runs elsewhere."""
    if entry.sandbox is not None:
        raise Malformed('has a "sandbox", which is for a server that is started, not for a URL; remove it')
    url = entry.url.strip()
    if "${" not in url:
        check_url(url)
    headers = {name: text_of(value) for name, value in entry.headers.items()}
    token = entry.bearer_token_env_var
    if token and not any(name.lower() == "authorization" for name in headers):
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


def sandbox_of(entry: SandboxEntry | None) -> SandboxAccess | None:
    """The sandbox that an entry declares; None for none. Raises `Malformed`."""
    if entry is None:
        return None
    if entry.profile not in get_args(SandboxProfile):
        known = ", ".join(get_args(SandboxProfile))
        raise Malformed(f'"sandbox.profile" is one of {known}, not {str(entry.profile)[:40]!r}')
    if entry.profile != "workspace-write" and (entry.domains or entry.paths):
        raise Malformed(
            f'"sandbox" opens domains and paths with the profile workspace-write only, not with {entry.profile}'
        )
    for domain in entry.domains:
        if not DOMAIN.fullmatch(domain):
            raise Malformed(f'"sandbox.domains" has {domain[:80]!r}; write a host, *.host, host:port, or *')
    for path in entry.paths:
        if not path.startswith(("/", "~/")) or ".." in path.split("/"):
            raise Malformed(
                f'"sandbox.paths" has {path[:80]!r}; write an absolute path, or one that begins with ~/'
            )
    return SandboxAccess(entry.profile, tuple(entry.domains), tuple(entry.paths))


def first(entry: JsonObject, keys: tuple[str, ...], default: Any) -> Any:
    """The value of the first of these keys that is there and not null."""
    return next((entry[key] for key in keys if entry.get(key) is not None), default)


def text_of(value: str | float) -> str:
    """A text, or a number or switch as JSON has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def expand_variables(config: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """The server with its variables filled in. Raises `ConfigError`."""
    made = msgspec.structs.replace(config, **config.expand(environ))
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


def secrets_in(config: ServerConfig) -> dict[str, str]:
    """The secret values of an expanded entry, by name: variables and headers except those that are evidently no
    secrets, and keys of its login."""
    found = find_configured_secrets(config.env) | find_configured_secrets(config.headers)
    return found | {
        name: value
        for name, value in config.oauth.items()
        if name.lower().replace("_", "") in ("clientsecret", "privatekey")
        and isinstance(value, str)
        and looks_like_secret(value)
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
    paths = "".join(f", {escape_all(path)}" for path in access.paths)
    hosts = ", ".join(map(escape_all, access.domains)) or "no network"
    return f"workspace-write: it may change the workspace{paths}; it reaches {hosts}"


def warn_unconfined(config: ServerConfig, state_dir: Path) -> str:
    """A warning, given once, for a server that runs without a sandbox only because its entry has no `sandbox`; else empty."""
    if config.kind != "stdio" or config.scope != "user" or config.sandbox is not None:
        return ""
    marker = state_dir / WARNED / config.identity
    if marker.exists():
        return ""
    try:
        marker.parent.mkdir(0o700, parents=True, exist_ok=True)
        marker.touch(0o600)
    except OSError:
        pass  # the warning is repeated
    return (
        f"{config.name} runs without a sandbox, because its entry in {config.origin} declares none. Add "
        '"sandbox": {"profile": "workspace-write", "domains": [the hosts it needs]} to the entry, or '
        '{"profile": "full"} if it is to stay so. This is shown once.'
    )


class McpServerOptions(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What a server is started with. `sandbox` has the rules for its process, `last_protocol_version` is what it spoke last,
    `mask` hides what is secret in what the server prints."""

    config: ServerConfig
    environ: Mapping[str, str]
    workspace: Path
    state_dir: Path
    sandbox: "Sandbox"
    allow_hosts: tuple[str, ...] = ()
    log: Callable[[str], None] | None = None
    ask: "Ask | None" = None
    last_protocol_version: str = ""
    mask: Callable[[str], str] = str
    cache_dir: Path | None = None

    @cached_property
    def key(self) -> Key:
        """What makes two settings one server."""
        return key_of(self.config, self.environ, self.workspace)


def key_of(config: ServerConfig, environ: Mapping[str, str], workspace: Path) -> Key:
    """What makes two settings one server: the entry, what its variables were filled with, where and how it runs."""
    filled = [config.command, config.args, config.env, config.cwd, config.url, config.headers, config.oauth]
    text = json.dumps([filled, sorted(environ.items())], sort_keys=True)
    return config.digest, hashlib.sha256(text.encode()).hexdigest(), str(workspace)
