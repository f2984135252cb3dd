"""Which values are secret here: of the environment, the saved keys and the addresses with passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from jaato.errors import ConfigError
from jaato.log import MASKED
from jaato.runtime.configured_secrets import configured_in
from jaato.runtime.keys import keys_file, read_keys
from jaato.runtime.session_options import Blueprint
from jaato.settings import Settings
from jaato.tools.secret_words import like_secret, names_secret
from jaato.tools.secrets import Secrets

PASSWORD = re.compile(r"://[^\s/:@?#]*:([^\s@]+)@")


def known_secrets(settings: Settings, blueprint: Blueprint) -> Secrets:
    """The secrets of a session: those of the plugins it shares, else its own."""
    shared = blueprint.registry.services.get("secrets") if blueprint.registry is not None else None
    if isinstance(shared, Secrets):
        return shared
    return secrets_of(settings, blueprint.api_key, blueprint.workspace)


def secrets_of(settings: Settings, api_key: str | None = None, workspace: Path | None = None) -> Secrets:
    """What is masked under these settings, and in this workspace; nothing when they say so."""
    if not settings["mask_secrets"]:
        return Secrets.none()
    named = secret_variables(settings.environ, settings["service_keys"]) | saved_keys(settings)
    named = configured_in(settings, workspace) | named
    if api_key:
        named["api_key"] = api_key
    made = learned(Secrets(named), settings)
    MASKED.learn(made.mask)
    return made


def learned(secrets: Secrets, settings: Settings) -> Secrets:
    """The same secrets, with the keys that were read from the keyring by now."""
    for name, key in settings.learned.items():
        secrets.add(name, key)
    return secrets


def secret_variables(environ: Mapping[str, str], service_keys: list[str]) -> dict[str, str]:
    """The values of variables whose names say that they are secret or that the settings name, and passwords in
    addresses."""
    named = {entry.partition("=")[0].strip() for entry in service_keys}
    found: dict[str, str] = {}
    for name, value in environ.items():
        text = value.strip()
        if name in named or (names_secret(name) and like_secret(text)):
            found[name] = text
        for password in filter(told, PASSWORD.findall(text)):
            found |= {f"{name}.password": unquote(password), f"{name}.password.quoted": password}
    return found


def told(password: str) -> bool:
    """Whether a password in an address is more than a word, such as `postgres`, that stands in every file."""
    return like_secret(unquote(password))


def saved_keys(settings: Settings) -> dict[str, str]:
    """The keys in the file of saved keys; none from one that cannot be read, which says so where a key is needed."""
    try:
        entries = read_keys(keys_file(settings))
    except ConfigError:
        return {}
    return {
        f"{name}.key": entry["key"]
        for name, entry in entries.items()
        if isinstance(entry, dict) and isinstance(entry.get("key"), str)
    }
