"""The manifest of an MCP server: the tools, prompts and resources it offers, cached in a private file so that they are found
without starting it."""

# Annotations are not postponed here: msgspec would compile each one as text.

import time
from pathlib import Path
from typing import Any

import msgspec

from jaato.errors import ConfigError
from jaato.tools.call import replace_surrogates
from jaato.tools.filesystem.atomic import read_bounded, write_private
from jaato.tools.schema import depth_within
from jaato.typed_decoding import decode_json

VERSION = 1
MAX_FILE_BYTES = 16_777_216
MAX_ENTRIES = 2_000
MAX_ENTRY_BYTES = 262_144
MAX_NAME_CHARS = 256
MAX_INSTRUCTIONS_CHARS = 20_000
MAX_DEPTH = 100


class ToolEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One tool as its server describes it; the schemas are whole."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    execution: dict[str, Any] = {}


class PromptEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One prompt; each argument has a name, and perhaps a title, a description and `required`."""

    name: str
    title: str = ""
    description: str = ""
    arguments: list[dict[str, Any]] = []


class ResourceEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One resource, or with `template` a family of them, whose `uri` is an RFC 6570 template."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size_bytes: int | None = None
    template: bool = False
    annotations: dict[str, Any] = {}


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a server offers. `fetched_at` is Unix time, `ttl_s` how long it says that holds (None: it does not say).

    `protocol_version` is the revision in use, such as `2026-07-28`; `server_info` is what the server calls itself;
    `dropped` says what was left out and why.
    """

    digest: str
    version: int = VERSION
    protocol_version: str = ""
    server_info: dict[str, Any] = {}
    instructions: str = ""
    capabilities: dict[str, Any] = {}
    tools: list[ToolEntry] = []
    prompts: list[PromptEntry] = []
    resources: list[ResourceEntry] = []
    fetched_at: float = 0.0
    ttl_s: float | None = None
    dropped: list[str] = []

    def age_s(self, now: float | None = None) -> float:
        """Seconds since it was fetched."""
        return max(0.0, (time.time() if now is None else now) - self.fetched_at)


def path_of(cache_dir: Path, digest: str) -> Path:
    """Where the manifest of a configuration is kept. Raises ValueError for what is no digest."""
    if len(digest) != 64 or not digest.isascii() or not digest.isalnum():
        raise ValueError(f"{digest[:80]!r} is no digest")
    return cache_dir / "mcp" / f"{digest}.json"


def load(cache_dir: Path, digest: str) -> Manifest | None:
    """What was last known of a configuration; None when nothing is, or what is there cannot be used."""
    try:
        content = read_bounded(path_of(cache_dir, digest), MAX_FILE_BYTES)
        if content is None:
            return None
        found = decode_json(content, Manifest)
    except (ConfigError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.version == VERSION and found.digest == digest else None


def save(cache_dir: Path, manifest: Manifest) -> bool:
    """Keep what is known, within bounds; whether that was possible, for a cache may be lost."""
    try:
        content = msgspec.json.encode(limit_manifest(manifest))
        if len(content) > MAX_FILE_BYTES:
            return False
        write_private(path_of(cache_dir, manifest.digest), content)
    except OSError:
        return False
    return True


def forget(cache_dir: Path, digest: str) -> None:
    """Keep nothing of a configuration."""
    try:
        path_of(cache_dir, digest).unlink(missing_ok=True)
    except OSError:
        return


def limit_manifest(manifest: Manifest) -> Manifest:
    """The manifest without what is too big, too deep or too much; `dropped` names it."""
    dropped = list(manifest.dropped)
    budget = [MAX_FILE_BYTES - 1_000_000]
    tools = fitting("tool", manifest.tools, dropped, budget)
    prompts = fitting("prompt", manifest.prompts, dropped, budget)
    resources = fitting("resource", manifest.resources, dropped, budget)
    instructions = manifest.instructions
    if len(instructions) > MAX_INSTRUCTIONS_CHARS:
        instructions = instructions[:MAX_INSTRUCTIONS_CHARS]
        dropped.append(f"instructions beyond {MAX_INSTRUCTIONS_CHARS:,} characters")
    return msgspec.structs.replace(
        manifest,
        protocol_version=replace_surrogates(manifest.protocol_version)[:MAX_NAME_CHARS],
        server_info=manifest.server_info if fits(manifest.server_info) else {},
        instructions=replace_surrogates(instructions),
        capabilities=manifest.capabilities if fits(manifest.capabilities) else {},
        tools=tools,
        prompts=prompts,
        resources=resources,
        dropped=dropped[:100],
    )


def fitting(kind: str, entries: list[Any], dropped: list[str], budget: list[int]) -> list[Any]:
    """Those entries that are within the bounds."""
    kept: list[Any] = []
    for number, entry in enumerate(entries):
        name: str = entry.uri if isinstance(entry, ResourceEntry) else entry.name
        if number >= MAX_ENTRIES:
            dropped.append(f"{len(entries) - MAX_ENTRIES:,} {kind}s beyond {MAX_ENTRIES:,}")
            break
        if not name or (len(name) > MAX_NAME_CHARS and kind != "resource"):
            dropped.append(f"a {kind} whose name is empty or longer than {MAX_NAME_CHARS} characters")
            continue
        size = size_of(entry)
        if size is None or size > MAX_ENTRY_BYTES or size > budget[0]:
            dropped.append(
                f"the {kind} {replace_surrogates(name)[:80]!r}, whose definition is too big, too deep or no text"
            )
            continue
        budget[0] -= size
        kept.append(entry)
    return kept


def size_of(entry: Any) -> int | None:
    """How many bytes an entry takes; None for what no file can hold."""
    try:
        value = msgspec.to_builtins(entry)
        return len(msgspec.json.encode(value)) if depth_within(value, MAX_DEPTH) else None
    except (UnicodeEncodeError, RecursionError, TypeError, OverflowError, ValueError):
        return None


def fits(value: Any) -> bool:
    """Whether a value can be kept as one entry."""
    size = size_of(value)
    return size is not None and size <= MAX_ENTRY_BYTES
