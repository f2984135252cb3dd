"""Which values are secret here: of the environment, the saved keys, addresses with passwords, and the files of MCP servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.log import MASKED
from jaato.runtime.provider_keys import keys_file, read_keys
from jaato.runtime.session_options import SessionOptions
from jaato.settings import Settings, home_of
from jaato.tools.redaction.patterns import find_configured_secrets, is_secret_name, looks_like_secret
from jaato.tools.redaction.redactor import Redactor

PASSWORD = lazy_pattern(r"://[^\s/:@?#]*:([^\s@]+)@")


def session_secrets(settings: Settings, options: SessionOptions) -> Redactor:
    """The secrets of a session: those of the plugins it shares, else its own."""
    shared = options.registry.services.get("secrets") if options.registry is not None else None
    if isinstance(shared, Redactor):
        return shared
    return collect_secrets(settings, options.api_key, options.workspace)


def collect_secrets(
    settings: Settings, api_key: str | None = None, workspace: Path | None = None
) -> Redactor:
    """What is masked under these settings, and in this workspace; nothing when they say so."""
    if not settings["mask_secrets"]:
        return Redactor.none()
    named = secret_variables(settings.environ, settings["service_keys"]) | load_saved_keys(settings)
    named = collect_configured_values(settings, workspace) | named
    if api_key:
        named["api_key"] = api_key
    made = with_keyring_keys(Redactor(named), settings)
    MASKED.learn(made.mask)
    return made


def with_keyring_keys(secrets: Redactor, settings: Settings) -> Redactor:
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
        if name in named or (is_secret_name(name) and looks_like_secret(text)):
            found[name] = text
        for password in PASSWORD.findall(text):
            plain = unquote(password)
            if looks_like_secret(plain):  # more than a word, such as `postgres`, that stands in every file
                found |= {f"{name}.password": plain, f"{name}.password.quoted": password}
    return found


def load_saved_keys(settings: Settings) -> dict[str, str]:
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


MCP_FILE, REGISTRIES_FILE = ".mcp.json", "registries.json"
ENTRIES = ("mcpServers", "servers", "registries")
TABLES = ("env", "environment", "envs", "headers", "http_headers")
MAX_VALUES = 2_000
"""Of one file; whoever writes a workspace's could otherwise make every text slow to look through."""


def collect_configured_values(settings: Settings, workspace: Path | None) -> dict[str, str]:
    """What is secret of the variables and headers in the user's files, and in those of a workspace, trusted or not."""
    home = home_of(settings.environ)
    files: list[tuple[Path, Path | None]] = [
        (home / MCP_FILE, None),
        (settings.config_dir / REGISTRIES_FILE, None),
    ]
    if workspace is not None:
        files += [(workspace / MCP_FILE, workspace), (workspace / ".jaato" / REGISTRIES_FILE, workspace)]
    found: dict[str, str] = {}
    for path, within in files:
        if not os.path.exists(path):
            continue
        from jaato.tools.remote.fields import VARIABLE, value_of  # most have no such file

        for values in tables_in(path, within):
            filled = {
                key: VARIABLE.sub(lambda one: value_of(one, settings.environ) or "", value)
                if "$" in value  # else the pattern need not be compiled
                else value
                for key, value in values.items()
            }
            for name, value in find_configured_secrets(filled).items():
                found[name if found.get(name, value) == value else f"{name}.{len(found)}"] = value
    return found


def tables_in(path: Path, within: Path | None) -> Iterator[dict[str, str]]:
    """The variables, headers and tokens of every entry of a file; none of one that cannot be read, which says so where an
    entry is needed."""
    from jaato.tools.remote.fields import Malformed
    from jaato.tools.remote.sources import read_document

    try:
        document = read_document(path, within)
    except Malformed:
        return
    left = MAX_VALUES
    tables = [document[key] for key in ENTRIES if isinstance(document.get(key), dict)]
    for entry in (entry for table in tables for entry in table.values() if isinstance(entry, dict)):
        for table in (*(entry.get(key) for key in TABLES), {"token": entry.get("token")}):
            if isinstance(table, dict):
                texts = {key: value for key, value in table.items() if isinstance(value, str)}
                left -= len(texts)
                if left < 0:
                    return
                yield texts
