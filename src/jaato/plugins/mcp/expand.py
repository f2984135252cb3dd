"""Filling `${VAR}` into a server's entry: only ever for a trusted one, since it hands over the user's secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.entry import MAX_TEXT_CHARS, check_header, check_url
from jaato.tools.configured import PLACE, Malformed, value_of
from jaato.tools.secret_words import configured_secrets, like_secret
from jaato.tools.unseen import strings_in


def expanded(config: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """The server with every `${VAR}`, `${env:VAR}` and `${VAR:-default}` filled in. Raises `ConfigError`."""

    def fill(text: str, place: str) -> str:
        return filled(text, environ, lambda name: missing(config, place, name))

    made = msgspec.structs.replace(
        config,
        command=fill(config.command, "command"),
        args=tuple(fill(arg, "args") for arg in config.args),
        env={name: fill(value, f"env.{name}") for name, value in config.env.items()},
        cwd=fill(config.cwd, "cwd"),
        url=fill(config.url, "url"),
        headers={name: fill(value, f"headers.{name}") for name, value in config.headers.items()},
        oauth={
            key: inside(value, partial(fill, place=f"oauth.{key}")) for key, value in config.oauth.items()
        },
    )
    try:
        if made.kind != "stdio":
            check_url(made.url)
        for name, value in made.headers.items():
            check_header(name, value)
        for text in (made.command, *made.args, *made.env.values(), made.url, *made.headers.values()):
            if len(text) > MAX_TEXT_CHARS or "\0" in text:
                raise Malformed(
                    "has a value that is too long or holds a NUL once its variables are filled in"
                )
    except Malformed as error:
        raise ConfigError(f"The MCP server {config.name!r} in {config.origin} {error}.") from None
    if made.kind == "stdio" and not made.command.strip():
        raise ConfigError(f"The MCP server {config.name!r} in {config.origin} has an empty command.")
    return made


def variables_of(config: ServerConfig) -> list[str]:
    """The names of the variables the entry takes from the user's environment, sorted."""
    texts = [config.command, *config.args, *config.env.values(), config.cwd, config.url]
    texts += [*config.headers.values(), *strings_in(config.oauth)]
    return sorted({found[1] for text in texts for found in PLACE.finditer(text)})


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


def inside(value: Any, fill: Callable[[str], str]) -> Any:
    """A JSON value with its texts filled in."""
    match value:
        case str():
            return fill(value)
        case list():
            return [inside(member, fill) for member in value]
        case dict():
            return {key: inside(member, fill) for key, member in value.items()}
    return value


def filled(text: str, environ: Mapping[str, str], missing: Callable[[str], ConfigError]) -> str:
    """A text with its variables; what is filled in is not looked at again."""

    def value(found: re.Match[str]) -> str:
        known = value_of(found, environ)
        if known is None:
            raise missing(found[1])
        return known

    return PLACE.sub(value, text)


def missing(config: ServerConfig, place: str, name: str) -> ConfigError:
    """That a variable is not set."""
    return ConfigError(
        f"The MCP server {config.name!r} needs the variable {name} ({place} in {config.origin}), which is not set. "
        f"Set it, or write ${{{name}:-default}}."
    )
