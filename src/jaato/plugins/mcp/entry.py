"""One entry of `.mcp.json`, in the spellings that tools write, as a checked configuration."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jaato.plugins.mcp.config import Kind, ServerConfig, Table
from jaato.plugins.mcp.confined import declared
from jaato.protocol.codec import is_unicode
from jaato.tools.configured import Malformed, Scope, check_name, digest_of, switch
from jaato.tools.unseen import hidden, strings_in

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
CALL_KEYS = ("call_timeout_s", "tool_timeout_sec")

MAX_NAME_CHARS = 100
MAX_TEXT_CHARS = 32_768
MAX_ITEMS = 1_000
MAX_DEPTH = 32
MAX_TIMEOUT_S = 86_400.0
VARIABLE = re.compile(r"\$\{")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
RESERVED_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"}
)


def server_of(name: str, entry: Any, scope: Scope, origin: Path) -> ServerConfig:
    """The server an entry describes. Raises `Malformed` saying what is wrong with it."""
    check_name(name, MAX_NAME_CHARS)
    if not isinstance(entry, Table):
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
        call_timeout_s=seconds_of(entry, (*CALL_KEYS, "timeout"), 300.0),
        idle_timeout_s=seconds_of(entry, ("idle_timeout_s",), 600.0),
        disabled=switch(entry, "disabled", False) or not switch(entry, "enabled", True),
        **(process_of(entry) if kind == "stdio" else address_of(entry)),
    )
    shown = [config.command, *config.args, config.cwd, config.url]
    shown += [
        *strings_in(config.oauth),
        *config.env,
        *config.env.values(),
        *config.headers,
        *config.headers.values(),
        *(config.sandbox.paths if config.sandbox else ()),
    ]
    unseen = sorted({char for text in shown for char in hidden(text)})
    if unseen:
        raise Malformed(f"holds invisible characters ({', '.join(unseen[:5])}); write it without them")
    return config


def check_shape(entry: Table) -> None:
    """Raise `Malformed` for keys that come twice, texts that are none, and what is absurdly big or deep."""
    waiting: list[tuple[Any, int]] = [(entry, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Malformed(f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, Table):
            if value.doubled:
                raise Malformed(f"has the key {min(value.doubled)[:80]!r} twice; remove one of the two")
            waiting += [(member, depth + 1) for member in value.values()]
        elif isinstance(value, list):
            waiting += [(member, depth + 1) for member in value]
        elif isinstance(value, float) and not math.isfinite(value):
            raise Malformed("holds NaN or Infinity, which is no number of JSON")
    for text in strings_in(entry):
        if "\0" in text or not is_unicode(text):
            raise Malformed("holds a NUL or half a character, which no command or address can have")


def kind_of(entry: Table) -> Kind:
    """Which kind of server, by its type or, without one, by what it has."""
    written = first(entry, ("type", "transport"), None)
    if isinstance(written, Table):
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


def process_of(entry: Table) -> dict[str, Any]:
    """The command of a server that is started."""
    command = first(entry, COMMAND_KEYS, "")
    args = entry.get("args")
    args = [] if args is None else args
    if isinstance(command, list) and command:
        command, args = command[0], [*command[1:], *(args if isinstance(args, list) else [args])]
    if not isinstance(command, str) or not command.strip():
        raise Malformed('needs a "command": the program, as one text')
    if not isinstance(args, list) or len(args) > MAX_ITEMS:
        raise Malformed(f'"args" must be a list of at most {MAX_ITEMS} texts')
    return {
        "command": text_of(command, "command"),
        "args": tuple(scalar(arg, "args") for arg in args),
        "env": environment_of(entry),
        "cwd": text_of(first(entry, DIRECTORY_KEYS, ""), "cwd"),
        "sandbox": declared(entry.get("sandbox")),
    }


def environment_of(entry: Table) -> dict[str, str]:
    """The variables a server is started with."""
    env = texts(first(entry, ENV_KEYS, {}), "env")
    for name in env:
        if not name or "=" in name:
            raise Malformed(f"has {name[:80]!r} in env, which no variable can be called")
    return env


def address_of(entry: Table) -> dict[str, Any]:
    """The address of a server that runs elsewhere."""
    if "sandbox" in entry:
        raise Malformed('has a "sandbox", which is for a server that is started, not for a URL; remove it')
    url = text_of(first(entry, URL_KEYS, ""), "url").strip()
    if not VARIABLE.search(url):
        check_url(url)
    headers = texts(first(entry, HEADER_KEYS, {}), "headers")
    token = entry.get("bearer_token_env_var")
    if isinstance(token, str) and token and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    for name, value in headers.items():
        check_header(name, value)
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


def check_header(name: str, value: str) -> None:
    """Raise `Malformed` for a header that cannot be sent, or that the connection itself needs."""
    if not HEADER_NAME.fullmatch(name):
        raise Malformed(f"has a header {name[:80]!r}, which cannot be one's name")
    if name.lower() in RESERVED_HEADERS:
        raise Malformed(f"sets the header {name!r}, which belongs to the connection; remove it")
    if any(char in value for char in "\r\n\0"):
        raise Malformed(f"has a line end in the header {name!r}; remove it")


def oauth_of(value: Any) -> dict[str, Any]:
    """What is said about logging in, as written; a plain switch says nothing."""
    if isinstance(value, bool):
        return {}
    if not isinstance(value, dict):
        raise Malformed('"oauth" must be an object such as {"clientId": "…"}')
    return dict(value)


def first(entry: Table, keys: tuple[str, ...], default: Any) -> Any:
    """The value of the first of these keys that is there and not null."""
    return next((entry[key] for key in keys if entry.get(key) is not None), default)


def seconds_of(entry: Table, keys: tuple[str, ...], default_s: float) -> float:
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
    return str(value) if isinstance(value, int | float) else text_of(value, key)


def text_of(value: Any, key: str) -> str:
    """A text of bounded length."""
    if not isinstance(value, str):
        raise Malformed(f'"{key}" must be a text')
    if len(value) > MAX_TEXT_CHARS:
        raise Malformed(f'"{key}" has more than {MAX_TEXT_CHARS} characters')
    return value
