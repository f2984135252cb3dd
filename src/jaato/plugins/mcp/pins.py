"""The definitions a server had when they were first seen: what has changed since, or hides something, is held back
until a person has accepted it."""

# Annotations are not postponed here: msgspec would compile each one as text.

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.manifest import Manifest, ToolEntry, limit_manifest
from jaato.tools.filesystem.atomic import file_lock, write_private
from jaato.tools.invisible_text import escape_all, find_invisible, strings_in
from jaato.tools.permissions.trust import content_hash
from jaato.tools.remote.fields import digest_of
from jaato.tools.remote.trust import read_pins, render_diff

VERSION = 1
MAX_PINS = 5_000

Kind = Literal["tool", "prompt", "instructions"]
Reason = Literal["changed", "invisible characters", "too many definitions"]


class HeldDefinition(msgspec.Struct, frozen=True):
    """A definition that is held back: what of, why, a unified diff with nothing hidden, and which version of it."""

    kind: Kind
    name: str
    reason: Reason
    detail: str
    diff: str
    version: str

    def why(self, server: str) -> str:
        """In one sentence, for the model and for people."""
        import shlex

        return (
            f"The {self.kind} {escape_all(self.name)!r} of the MCP server {server!r} is disabled: {self.detail}. "
            f"The user can look at it and accept it with `jaato mcp trust {shlex.quote(server)}`."
        )


class ManifestReview(msgspec.Struct, frozen=True):
    """What of a manifest may be used, and what is held back."""

    manifest: Manifest
    changes: tuple[HeldDefinition, ...]

    def tool(self, name: str) -> ToolEntry | None:
        """The only tool of this name."""
        named = [entry for entry in self.manifest.tools if entry.name == name]
        return named[0] if len(named) == 1 else None

    def missing(self, server: str, name: str) -> str:
        """Why there is no such tool to call, with those there are."""
        from jaato.tools.filesystem.containment import display_name, similar_names

        if name in self.disabled:
            return self.disabled[name].why(server)
        names = [entry.name for entry in self.manifest.tools]
        if names.count(name) > 1:
            return f"The MCP server {server!r} has {names.count(name)} tools {name!r}, so none of them can be called."
        near = similar_names(name, names)
        hint = f"Is it {' or '.join(map(repr, near))}? " if near else ""
        known = ", ".join(display_name(one)[:80] for one in names[:50]) or "none"
        return f"The MCP server {server!r} has no tool {name[:80]!r}. {hint}It has {known}."

    @property
    def disabled(self) -> dict[str, HeldDefinition]:
        """The tools that are held back, by name."""
        return {change.name: change for change in self.changes if change.kind == "tool"}


class Pinned(msgspec.Struct):
    """One definition as it was accepted."""

    hash: str
    definition: dict[str, Any]


class PinFile(msgspec.Struct):
    """All definitions of one server; the keys are `tool:NAME`, `prompt:NAME`, `instructions:`.

    `agreed` is the hash of the last manifest with which nothing was wrong, so that it need not be looked through again.
    """

    version: int = VERSION
    server: str = ""
    agreed: str = ""
    pins: dict[str, Pinned] = {}


class Pins:
    """The pins of every server, one private file each below `state_dir`."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "mcp-pins"
        self._held: dict[Path, PinFile] = {}

    def hold(self, configs: Iterable[ServerConfig]) -> None:
        """From now on nothing counts as accepted for these servers but what is now, and what is new here. A damaged file
        is left to `review`."""
        for config in configs:
            path = self._path(config)
            with contextlib.suppress(ConfigError):
                self._held[path] = self._read(path)

    def review(self, config: ServerConfig, manifest: Manifest) -> ManifestReview:
        """Compare with what is pinned, and pin what is new and hides nothing. Raises `ConfigError`, OSError."""
        path = self._path(config)
        at_first = self._held.get(path)
        known = at_first or self._read(path)
        whole = whole_hash(manifest)
        if whole and whole == known.agreed:
            return ManifestReview(manifest, ())
        manifest = limit_manifest(manifest)
        found = definitions(manifest)
        changes = find_changed(known, found)
        held = {(change.kind, change.name) for change in changes}
        new = {key: made for key, made in found.items() if key not in held and label(key) not in known.pins}
        if new or not changes:
            with file_lock(path):
                known = self._read(path)
                for key, definition in new.items():
                    known.pins.setdefault(label(key), make_pin(definition))
                changes = find_changed(known, found)
                known.agreed = "" if changes else whole_hash(manifest)
                self._write(path, config, known)
            if at_first is not None:
                at_first.pins = known.pins | at_first.pins
                changes = find_changed(at_first, found)
                at_first.agreed = "" if changes else whole_hash(manifest)
        return ManifestReview(without(manifest, changes), tuple(changes))

    def accept(
        self, config: ServerConfig, manifest: Manifest, changes: tuple[HeldDefinition, ...] | None = None
    ) -> int:
        """Pin definitions as they are now: those shown in `changes`, or all; how many. One that changed since it
        was shown is left. Raises `ConfigError`, OSError."""
        path = self._path(config)
        found = definitions(limit_manifest(manifest))
        wanted = None if changes is None else {(one.kind, one.name): one.version for one in changes}
        with file_lock(path):
            known = self._read(path)
            made = {key: make_pin(definition) for key, definition in found.items()}
            accepted = {
                key: one for key, one in made.items() if wanted is None or wanted.get(key) == one.hash
            }
            if len(known.pins) + len(accepted) > MAX_PINS:
                known.pins = {name: one for name, one in known.pins.items() if name in map(label, found)}
            known.pins |= {label(key): one for key, one in accepted.items()}
            known.agreed = ""
            self._write(path, config, known)
        return len(accepted)

    def forget(self, config: ServerConfig) -> None:
        """Hold nothing against a server any more."""
        self._path(config).unlink(missing_ok=True)

    def _path(self, config: ServerConfig) -> Path:
        return self._folder / f"{config.identity}.json"

    def _read(self, path: Path) -> PinFile:
        return read_pins(path, PinFile, "version", VERSION, ServerConfig.NOUN)

    def _write(self, path: Path, config: ServerConfig, known: PinFile) -> None:
        known.server = config.name
        write_private(path, msgspec.json.encode(known))


Key = tuple[Kind, str]


def definitions(manifest: Manifest) -> dict[Key, dict[str, Any]]:
    """Every text a server puts before a model, by kind and name. Of two tools of one name the first counts."""
    found: dict[Key, dict[str, Any]] = {}
    for tool in manifest.tools:
        found.setdefault(("tool", tool.name), msgspec.to_builtins(tool))
    for prompt in manifest.prompts:
        found.setdefault(("prompt", prompt.name), msgspec.to_builtins(prompt))
    if manifest.instructions:
        found["instructions", ""] = {"description": manifest.instructions}
    return found


def label(key: Key) -> str:
    """The name of a pin."""
    return f"{key[0]}:{key[1]}"


def make_pin(definition: dict[str, Any]) -> Pinned:
    """A definition with its hash."""
    return Pinned(hash_of(definition), definition)


def hash_of(definition: dict[str, Any]) -> str:
    """The hash of a definition, whatever the order of its keys."""
    return f"sha256:{digest_of(definition)}"


def whole_hash(manifest: Manifest) -> str:
    """The hash of all that is judged; empty for what no file can hold."""
    try:
        return content_hash(msgspec.json.encode([manifest.tools, manifest.prompts, manifest.instructions]))
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        return ""


def find_changed(known: PinFile, found: dict[Key, dict[str, Any]]) -> list[HeldDefinition]:
    """What must be held back, in the order the server has it."""
    changes: list[HeldDefinition] = []
    room = MAX_PINS - len(known.pins)
    for key, definition in found.items():
        before = known.pins.get(label(key))
        version = hash_of(definition)
        if before is not None and before.hash == version:
            continue
        unseen = invisible(definition)
        reason: Reason
        if unseen:
            reason, detail = "invisible characters", f"its definition has invisible characters ({unseen})"
        elif before is not None:
            reason, detail = "changed", "its definition has changed since it was accepted"
        elif room > 0:
            room -= 1
            continue
        else:
            reason, detail = "too many definitions", f"the server has shown more than {MAX_PINS:,} so far"
        diff = render_diff(before.definition if before else {}, definition, "accepted")
        changes.append(HeldDefinition(key[0], key[1], reason, detail, diff, version))
    return changes


def invisible(definition: dict[str, Any]) -> str:
    """The invisible characters anywhere in a definition."""
    found = sorted({char for text in strings_in(definition) for char in find_invisible(text)})
    return ", ".join(found[:8]) + (", …" if len(found) > 8 else "")


def without(manifest: Manifest, changes: list[HeldDefinition]) -> Manifest:
    """The manifest without what is held back."""
    held = {(change.kind, change.name) for change in changes}
    return msgspec.structs.replace(
        manifest,
        tools=[tool for tool in manifest.tools if ("tool", tool.name) not in held],
        prompts=[prompt for prompt in manifest.prompts if ("prompt", prompt.name) not in held],
        instructions="" if ("instructions", "") in held else manifest.instructions,
    )
