"""The registries a user and a workspace have configured: two files named `registries.json`, read with distrust."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jaato.errors import ConfigError, JaatoError
from jaato.protocol.arp import strict
from jaato.tools.configured import Malformed, Scope, content_of, either_begins, resolved
from jaato.tools.names import shown_name

FILE = "registries.json"
KEY = "registries"
MAX_REGISTRIES = 100
ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}(/\S{0,200})?")
"""What is meant as an address, and lacks its scheme."""
DOCUMENT: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One registry as written, its `${VAR}` not filled in (`filled` does that, for a trusted one only).

    `digest` is the SHA-256 of the entry and, where it is not the user's, of where it stands. `prefix` is what the names of
    its tools begin with; `always` says whether they do so also where no other tool has the name.
    """

    name: str
    url: str
    scope: Scope
    origin: Path
    digest: str
    prefix: str
    always: bool = False
    token: str = ""
    headers: dict[str, str] = {}
    enabled: bool = True
    timeout_s: float = 60.0
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a configuration that was left out: whose (None: the whole file's), where and why."""

    registry: str | None
    origin: Path
    text: str

    def __str__(self) -> str:
        entry = f"registry {self.registry!r}: " if self.registry is not None else ""
        return f"{self.origin}: {entry}{self.text}"


@dataclass(frozen=True, slots=True)
class Found:
    """The registries by name, the user's first, and what was left out."""

    registries: dict[str, RegistryConfig]
    problems: tuple[Problem, ...] = ()


def load(workspace: Path, config_dir: Path, owns: Callable[[Path, bytes], bool] | None = None) -> Found:
    """Both files, whatever is in them. A workspace's entry never stands in for the user's of the same name or prefix;
    `owns` says whether the user's file counts."""
    user_file, workspace_file = file_of("user", workspace, config_dir), workspace / ".jaato" / FILE
    registries, problems = read(user_file, "user", owns=owns)
    if resolved(user_file) != resolved(workspace_file):
        others, more = read(workspace_file, "workspace", within=workspace)
        problems += more
        taken = {mark_of(one): name for name, one in registries.items()}
        for name, config in others.items():
            mine = next((own for mark, own in taken.items() if either_begins(mark, mark_of(config))), None)
            if mine is None:
                registries[name] = config
                continue
            text = f"is left out: your own {user_file} has {mine!r}, whose tools it could be taken for; rename it"
            problems.append(Problem(name, workspace_file, text))
    return Found(registries, tuple(problems))


def file_of(scope: Scope, workspace: Path, config_dir: Path) -> Path:
    """The configuration file of a scope."""
    return config_dir / FILE if scope == "user" else workspace / ".jaato" / FILE


def mark_of(config: RegistryConfig) -> str:
    """How the prefixed names of a registry's tools begin, as names are compared."""
    return f"{config.prefix}__".casefold()


def read(
    path: Path,
    scope: Scope,
    *,
    within: Path | None = None,
    owns: Callable[[Path, bytes], bool] | None = None,
) -> tuple[dict[str, RegistryConfig], list[Problem]]:
    """The registries of one file and what is wrong with it; a missing file has neither."""
    try:
        entries = entries_of(path, within, owns)
    except Malformed as error:
        return {}, [Problem(None, path, str(error))]
    from jaato.plugins.arp.entry import registry_of

    registries: dict[str, RegistryConfig] = {}
    problems: list[Problem] = []
    for number, (name, entry) in enumerate(entries.items()):
        try:
            if number >= MAX_REGISTRIES:
                raise Malformed(f"is left out: a file has at most {MAX_REGISTRIES} registries")
            made = registry_of(name, entry, scope, path)
            twin = next(
                (one for one in registries.values() if either_begins(mark_of(one), mark_of(made))), None
            )
            if twin is not None:
                raise Malformed(
                    f"is left out: its tools could have names of {twin.name!r}; give it another prefix"
                )
            registries[name] = made
        except Malformed as error:
            problems.append(Problem(shown_name(name)[:80], path, str(error)))
            if number >= MAX_REGISTRIES:
                break
    return registries, problems


def entries_of(
    path: Path, within: Path | None, owns: Callable[[Path, bytes], bool] | None = None
) -> dict[str, Any]:
    """The entries of a file by name. Raises `Malformed`."""
    content = content_of(path, within, owns)
    if content is None:
        return {}
    document = document_of(content)
    entries = document.get(KEY, {})
    if not isinstance(entries, dict):
        raise Malformed(f'"{KEY}" must be one object, {{name: {{"url": …}}}}; correct it')
    if document and KEY not in document:
        raise Malformed(f'has no "{KEY}"; write {{"{KEY}": {{name: {{"url": …}}}}}}')
    return entries


def document_of(content: bytes) -> dict[str, Any]:
    """The JSON object in a file. Raises `Malformed`."""
    try:
        return strict(content.removeprefix(b"\xef\xbb\xbf"), DOCUMENT)
    except JaatoError as error:
        raise Malformed(f"cannot be read: {str(error)[:300].rstrip('.')}; correct it") from None


def search(registries: Mapping[str, RegistryConfig], name: str) -> RegistryConfig:
    """The registry of this name. Raises `ConfigError`, with the names there are."""
    found = registries.get(name)
    if found is None:
        there = ", ".join(repr(one) for one in sorted(registries)[:10])
        hint = f"there are {there}" if there else "none is configured yet; `jaato registry add` adds one"
        if ADDRESS.fullmatch(name):
            hint = f"one that is not configured is named by its URL (http://{name})"
        raise ConfigError(f"There is no registry {shown_name(name)[:80]!r}; {hint}.")
    return found
