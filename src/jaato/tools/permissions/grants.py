"""Grants: lasting answers to permission questions, listed and revoked by id."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jaato.errors import ConfigError
from jaato.protocol.events import now
from jaato.protocol.ids import new_id
from jaato.protocol.specs import Grant, SandboxAccess, Scope
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.typed_decoding import convert

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

MAX_BYTES = 4_194_304
Entry = tuple[str, str]
"""A line of a policy file: the list (`tools` or `patterns`) and the text."""


def entries_of(grant: Grant) -> tuple[Entry, ...]:
    """The lines of the policy file by which a lasting grant holds."""
    if grant.shape is None:
        return (("tools", grant.tool),)
    return tuple(("patterns", f"{grant.tool}({line})") for line in grant.shape.split("\n"))


def digest_of(call: Call) -> str:
    """The digest that an answer is bound to: SHA-256 of tool, arguments (canonical JSON) and directory."""
    whole = [call.name, call.arguments, str(call.workspace)]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def grant_of(
    call: Call,
    tool: Tool,
    effect: Literal["allow", "deny"],
    scope: Scope,
    shape: str | None,
    *,
    by: str,
    workspace: Path,
    access: SandboxAccess | None = None,
) -> Grant:
    """A grant that an answer to the question about a call begins."""
    return Grant(
        id=new_id("g"),
        effect=effect,
        tool=tool.name,
        scope=scope,
        shape=shape,
        workspace=str(workspace.resolve()),
        created_by=by,
        evidence=digest_of(call),
        created_at=now(),
        access=access,
    )


def is_in_force(grant: Grant) -> bool:
    """Whether a grant has not expired; what is no moment in time ends a permission and keeps a refusal."""
    if grant.expires is None:
        return True
    try:
        end = datetime.fromisoformat(grant.expires)
    except ValueError:
        return grant.effect == "deny"
    return datetime.now(UTC) < (end if end.tzinfo else end.replace(tzinfo=UTC))


def literal_pattern(command: str) -> str:
    """A command as a pattern that means exactly it."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in command)[:10_000].replace("\n", "?")


def shape_text(grant: Grant) -> str:
    """Describe what a grant covers."""
    return f"{grant.tool}({grant.shape})".replace("\n", "; ") if grant.shape else grant.tool


class GrantBook:
    """The user's `grants.json`: every `always` and `never`, with who gave it, when and to what question."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "grants.json"

    def of(self, workspace: str) -> tuple[Grant, ...]:
        """The lasting grants of a workspace, oldest first. Raises `ConfigError` for a damaged file."""
        return tuple(grant for grant in self._read() if grant.workspace == workspace)

    def add(self, grant: Grant) -> None:
        """Add a grant. Raises OSError, `ConfigError`."""
        with file_lock(self.path):
            self._write([*(one for one in self._read() if one.id != grant.id), grant])

    def remove(self, grant_id: str) -> Grant | None:
        """Remove a grant and return it. Raises OSError, `ConfigError`."""
        with file_lock(self.path):
            grants = self._read()
            found = next((one for one in grants if one.id == grant_id), None)
            if found is not None:
                self._write([one for one in grants if one.id != grant_id])
            return found

    def _read(self) -> tuple[Grant, ...]:
        content = read_bounded(self.path, MAX_BYTES)
        if content is None:
            return ()
        try:
            document: Any = json.loads(content)
            return tuple(convert(document["grants"], list[Grant]))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ConfigError(
                f'{self.path} is damaged: it should be {{"version": 1, "grants": [...]}}. '
                "Remove it; what was always allowed is then asked once more."
            ) from None

    def _write(self, grants: list[Grant]) -> None:
        document = {"version": 1, "grants": msgspec.to_builtins(grants)}
        write_private(self.path, json.dumps(document, indent=2).encode() + b"\n")
