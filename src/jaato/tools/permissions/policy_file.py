"""The permission file of a workspace: only trusted content allows; written atomically by several processes, under a lock."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.protocol.codec import is_unicode
from jaato.protocol.specs import Grant
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.tools.permissions.grants import Entry, GrantBook, entries_of, is_in_force
from jaato.tools.permissions.policy_document import (
    MAX_BYTES,
    PolicyDocument,
    RuleSet,
    from_mapping,
    parse_document,
)
from jaato.tools.permissions.trust import Trust, content_hash

TEMPLATE: dict[str, Any] = {
    "version": 1,
    "defaultPolicy": "ask",
    "blacklist": {"tools": [], "patterns": [], "arguments": {}},
    "whitelist": {"tools": [], "patterns": [], "arguments": {}},
}


class PolicyFile:
    """One file. `document` is its content, `whitelist` the trusted part of its whitelist, `trusted` whether all of it is."""

    def __init__(
        self,
        path: Path,
        *,
        workspace: Path | None = None,
        state_dir: Path | None = None,
        trusted: bool | None = None,
    ) -> None:
        self.path = path.absolute()
        self.workspace = str((workspace or Path.cwd()).resolve())
        self._trust = Trust(state_dir) if state_dir else None
        self._book = GrantBook(state_dir) if state_dir else None
        inside = self.path.is_relative_to(self.workspace) or self.path.resolve().is_relative_to(
            self.workspace
        )
        brought = inside or self.path.parts[-2:] == (".jaato", "permissions.json")
        self._believed = trusted if trusted is not None else not brought
        self._seen: tuple[object, ...] = ()
        self.version = 0
        """Rises with every change that was read."""
        self.document = PolicyDocument()
        self.whitelist = RuleSet()
        self.grants: tuple[Grant, ...] = ()
        self.trusted = True
        self.reload()

    def reload(self) -> None:
        """Read the file and its grants again. Raises `ConfigError`."""
        content = read_bounded(self.path, MAX_BYTES)
        known = self._book.of(self.workspace) if self._book else ()
        grants = tuple(grant for grant in known if is_in_force(grant))
        trusted = self._trusts(content)
        seen = (content_hash(content) if content is not None else None, grants, trusted)
        if seen == self._seen:
            return
        document = parse_document(content, str(self.path)) if content is not None else PolicyDocument()
        self.document = document
        self.trusted = trusted
        self.grants = tuple(grant for grant in grants if contains_grant(document, grant))
        self.whitelist = (
            without_expired(document.whitelist, known, grants) if trusted else self._granted_lines()
        )
        self._seen = seen
        self.version += 1

    def _granted_lines(self) -> RuleSet:
        """The lines of an untrusted file that this user's answers have written."""
        return lines_of(grant for grant in self.grants if grant.effect == "allow")

    def _trusts(self, content: bytes | None) -> bool:
        if content is None or self._believed:
            return True
        return self._trust is not None and self._trust.trusts(self.path, content)

    def trust(self) -> None:
        """Trust the file as it is now. Raises `ConfigError`, OSError."""
        content = read_bounded(self.path, MAX_BYTES)
        if self._trust is None or content is None:
            raise ConfigError(f"{self.path} cannot be trusted: there is no such file, or nowhere to note it.")
        parse_document(content, str(self.path))
        self._trust.add(self.path, content)
        self.reload()

    def remember(self, grant: Grant) -> None:
        """Write a lasting grant; trusted content stays trusted, and of untrusted content only this line is.

        Raises OSError, `ConfigError`, and `NotAllowed` for a permission that is given below a call of a tool.
        """
        if grant.effect == "allow":
            from jaato.tools.processes.call_processes import (
                require_outside_call,  # most runs grant nothing for good
            )

            require_outside_call()
        self._rewrite(grant, add=True)

    def forget(self, grant_id: str) -> Grant | None:
        """Remove a lasting grant and return it. Raises OSError, `ConfigError`."""
        found = next((grant for grant in self.grants if grant.id == grant_id), None)
        if found is not None:
            self._rewrite(found, add=False)
        return found

    def _rewrite(self, grant: Grant, *, add: bool) -> None:
        with file_lock(self.path):
            content = read_bounded(self.path, MAX_BYTES)
            document = parse_document(content, str(self.path)) if content is not None else PolicyDocument()
            book = self._book.of(self.workspace) if self._book else ()
            trusted = self._trusts(content) or not document.loosens
            raw = document.raw if content is not None else json.loads(json.dumps(TEMPLATE))
            kept = {(one.effect, entry) for one in book if one.id != grant.id for entry in entries_of(one)}
            for entry in entries_of(grant):
                if add or (grant.effect, entry) not in kept:
                    change(raw, grant.effect, entry, add=add)
            from_mapping(raw, str(self.path))
            written = encode_policy(raw)
            if self._book and not add:
                self._book.remove(grant.id)
            write_private(self.path, written)
            if self._book and add:
                self._book.add(grant)
            if trusted and not self._believed and self._trust is not None:
                self._trust.add(self.path, written)
        self._seen = ()
        self.reload()


def encode_policy(raw: dict[str, Any]) -> bytes:
    """A permission file as it is written: readable, escaped only where it holds what is no Unicode text."""
    text = json.dumps(raw, indent=2, ensure_ascii=False)
    if not is_unicode(text):
        text = json.dumps(raw, indent=2)
    return text.encode("utf-8") + b"\n"


def lines_of(grants: Iterable[Grant]) -> RuleSet:
    """The lines by which lasting grants hold."""
    lines = {entry for grant in grants for entry in entries_of(grant)}
    tools = frozenset(text for key, text in lines if key == "tools")
    return RuleSet(tools, tuple(text for key, text in sorted(lines) if key == "patterns"))


def without_expired(whitelist: RuleSet, known: tuple[Grant, ...], grants: tuple[Grant, ...]) -> RuleSet:
    """A whitelist without the lines of permissions that have expired."""
    expired = lines_of(one for one in known if one.effect == "allow")
    return whitelist - (expired - lines_of(one for one in grants if one.effect == "allow"))


def change(raw: dict[str, Any], effect: str, entry: Entry, *, add: bool) -> None:
    """Add a line to the list it belongs to, or take it away."""
    key, text = entry
    rules = raw.setdefault("whitelist" if effect == "allow" else "blacklist", {})
    lines = rules.setdefault(key, [])
    if add and text not in lines:
        lines.append(text)
    elif not add and text in lines:
        lines.remove(text)


def contains_grant(document: PolicyDocument, grant: Grant) -> bool:
    """Whether all lines of a grant still stand in the file."""
    rules = document.whitelist if grant.effect == "allow" else document.blacklist
    return all(text in (rules.tools if key == "tools" else rules.patterns) for key, text in entries_of(grant))
