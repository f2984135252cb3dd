"""The cache on disk of a registry's list of tools and of definitions, with their `ETag`s."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.arp import ToolDefinition, ToolView
from jaato.tools.filesystem.atomic import read_bounded, write_private
from jaato.typed_decoding import decode_json

FORM = 1
MAX_BYTES = 16_000_000
MAX_DEFINITIONS = 2_000


class CachedList(msgspec.Struct, omit_defaults=True):
    """A registry's list as it was at `at`, in seconds since 1970; `asked_whole` is when it last came without a condition.

    `dropped` says what of it was left out.
    """

    digest: str
    views: list[ToolView] = []
    at: float = 0.0
    asked_whole: float = 0.0
    etag: str = ""
    dropped: list[str] = []
    form: int = FORM


class CachedDefinition(msgspec.Struct, omit_defaults=True):
    """A definition as it was at `at`. `careful` means that it once declared of
    itself that its tool does more than answer."""

    definition: ToolDefinition
    at: float = 0.0
    etag: str = ""
    careful: bool = False


class CachedDefinitions(msgspec.Struct, omit_defaults=True):
    """The definitions of one registry by the tool's name, the one asked for last at the end."""

    digest: str
    tools: dict[str, CachedDefinition] = {}
    form: int = FORM


K = TypeVar("K", CachedList, CachedDefinitions)


def place(cache_dir: Path, digest: str, what: str) -> Path:
    """Where something of a registry is kept."""
    return cache_dir / "registries" / f"{digest}.{what}.json"


def load_list(cache_dir: Path, digest: str) -> CachedList:
    """The list that is kept of a configuration; an empty one, which was never asked for, without."""
    return load_cached(cache_dir, "list", CachedList(digest))


def load_definitions(cache_dir: Path, digest: str) -> CachedDefinitions:
    """The definitions that are kept of a configuration."""
    return load_cached(cache_dir, "definitions", CachedDefinitions(digest))


def load_cached(cache_dir: Path, what: str, nothing: K) -> K:
    """What is kept; `nothing` where it cannot be read, or is of another form or configuration."""
    try:
        content = read_bounded(place(cache_dir, nothing.digest, what), MAX_BYTES)
        found = decode_json(content or b"", type(nothing))
    except (ConfigError, ValueError, RecursionError):
        return nothing
    return found if (found.form, found.digest) == (FORM, nothing.digest) else nothing


def save(cache_dir: Path, kept: CachedList | CachedDefinitions) -> None:
    """Keep it for the next process, where that is possible: a cache may be lost. Of definitions, the oldest go where there is
    no room for all."""
    try:
        if isinstance(kept, CachedDefinitions):
            what, content = "definitions", fitting(kept)
        else:
            what, content = "list", msgspec.json.encode(kept)
        if len(content) <= MAX_BYTES:
            write_private(place(cache_dir, kept.digest, what), content)
    except (OSError, ValueError):
        return


def fitting(kept: CachedDefinitions) -> bytes:
    """As many definitions as there is room for, the last ones."""
    excess = len(kept.tools) - MAX_DEFINITIONS
    while True:
        for name in list(kept.tools)[: max(excess, 0)]:
            kept.tools.pop(name, None)
        content = msgspec.json.encode(kept)
        if len(content) <= MAX_BYTES:
            return content
        excess = len(kept.tools) // 2 + 1


def forget(cache_dir: Path, digest: str) -> None:
    """Keep nothing of a configuration."""
    for what in ("list", "definitions"):
        try:
            place(cache_dir, digest, what).unlink(missing_ok=True)
        except OSError:
            continue
