"""The policy in force: blacklist, whitelist and default, from a file, from flags and from lasting grants.

Of the workspace's file only trusted content allows; several processes write it atomically, under a lock."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from jaato.errors import ConfigError
from jaato.protocol.codec import is_unicode
from jaato.protocol.specs import Grant, Mode, SandboxAccess
from jaato.tools.filesystem.atomic import file_lock, read_bounded, write_private
from jaato.tools.permissions.access import WORKSPACE_WRITE
from jaato.tools.permissions.grants import Entry, GrantBook, entries_of, is_in_force
from jaato.tools.permissions.policy_document import (
    MAX_BYTES,
    Channel,
    Default,
    PolicyDocument,
    RuleSet,
    from_mapping,
    parse_document,
)
from jaato.tools.permissions.rules import ToolRules
from jaato.tools.permissions.trust import Trust, content_hash

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

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
            without_expired(document.whitelist, known, grants) if trusted else self._get_granted_lines()
        )
        self._seen = seen
        self.version += 1

    def _get_granted_lines(self) -> RuleSet:
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


class RuleLine(msgspec.Struct, frozen=True):
    """One rule in force as it is shown, and where it comes from: `session` for flags and settings, the permission
    `file`, a lasting `answer`, or the `program` that started the session."""

    effect: Literal["allow", "deny"]
    pattern: str
    source: Literal["session", "file", "answer", "program"]


STRICTNESS: dict[Default, int] = {"allow": 0, "ask": 1, "deny": 2}
MAX_KNOWN = 4_096
FRESH_S = 1.0


class EffectiveRules(msgspec.Struct, frozen=True):
    """The rules of a permission file that are in force in a session."""

    blacklist: RuleSet
    whitelist: RuleSet
    default: Default
    channel: Channel

    @classmethod
    def of(cls, file: PolicyFile, own: PolicyDocument) -> EffectiveRules:
        """The rules of the file now, as far as it is trusted, with those given by hand."""
        given = file.document.default
        if file.trusted:
            default, channel = own.default or given or "ask", file.document.channel
        else:
            default, channel = stricter(own.default or "ask", given or "allow"), own.channel
        return cls(file.document.blacklist, file.whitelist, default, channel)

    def tighten(self, now: EffectiveRules) -> EffectiveRules:
        """The rules after a change of the file: they deny what either denies, and allow what both allow."""
        return EffectiveRules(
            self.blacklist | now.blacklist,
            self.whitelist & now.whitelist,
            stricter(self.default, now.default),
            self.channel,
        )

    def covers(self, now: EffectiveRules) -> bool:
        """Whether the file allows nothing now that does not hold."""
        rules = now.whitelist & self.whitelist == now.whitelist
        return rules and STRICTNESS[now.default] >= STRICTNESS[self.default]


def stricter(one: Default, other: Default) -> Default:
    """The default that allows less."""
    return max(one, other, key=lambda default: STRICTNESS[default])


class Policy:
    """The rules in force. `version` rises with every change; `locked` says why nothing is allowed any more.

    A session uses one of its own. While it does, a change of the file only tightens: what the file allows from then on
    counts in the next session, save for what is granted through `remember`, revoked through `forget` or trusted
    through `trust` here, because a person decided so.
    """

    def __init__(
        self,
        document: PolicyDocument | None = None,
        *,
        file: PolicyFile | None = None,
        mode: Mode = "ask",
        access: SandboxAccess = WORKSPACE_WRITE,
    ) -> None:
        self._own = document or PolicyDocument()
        self._file = file
        self.mode: Mode = mode
        self._began_read_only = mode == "read-only"
        self.access = access
        """The access of a command that rules allow: the workspace and what is open for the whole session."""
        self.version = 0
        self._read_at = monotonic()
        self._admitted: frozenset[str] = frozenset()
        self._adopt()

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "the policy") -> Policy:
        """A policy from decoded JSON that is trusted as it stands. Raises `ConfigError`."""
        return cls(from_mapping(dict(document), where))

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        workspace: Path | None = None,
        state_dir: Path | None = None,
        trusted: bool | None = None,
    ) -> Policy:
        """The policy of a file, which need not exist.

        A file inside the workspace only tightens until its content is trusted in `state_dir`; `trusted`
        decides
        otherwise. Raises `ConfigError` naming file, line or field, and the remedy.
        """
        return cls(file=PolicyFile(path, workspace=workspace, state_dir=state_dir, trusted=trusted))

    def with_flags(
        self,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        default: Default | None = None,
        read_only: bool = False,
        mode: Mode | None = None,
        access: SandboxAccess | None = None,
    ) -> Policy:
        """The same with what the command line and the settings say: patterns to allow and to deny, another default, the
        mode (`read_only` is that of its name), and what commands that rules allow may reach."""
        flags = from_mapping(
            {"whitelist": {"patterns": list(allow)}, "blacklist": {"patterns": list(deny)}}, "--allow/--deny"
        )
        own = self._own
        if self._file is not None and monotonic() - self._read_at > FRESH_S:
            self._file.reload()  # what is made here is for a session that begins now
        merged = PolicyDocument(
            default or own.default,
            own.blacklist | flags.blacklist,
            own.whitelist | flags.whitelist,
            own.channel,
        )
        chosen = "read-only" if read_only or self.mode == "read-only" else mode or self.mode
        return Policy(merged, file=self._file, mode=chosen, access=access or self.access)

    @property
    def read_only(self) -> bool:
        """Whether only what reads may run, whatever else is allowed."""
        return self.mode in ("read-only", "plan")

    def set_mode(self, mode: Mode) -> None:
        """Change the mode: only a person does so, never a file. Raises `ConfigError` where it began as `read-only`."""
        if self._began_read_only and mode != "read-only":
            raise ConfigError("This session began in the mode read-only and keeps it; begin another one.")
        self.mode = mode
        self.version += 1

    def admit(self, names: Iterable[str]) -> None:
        """Let only these tools be called, beside those that rules allow; what a rule denies stays denied."""
        self._admitted = frozenset(names)
        self._fill()

    def _adopt(self) -> None:
        """Adopt the file as it is now."""
        self._held = EffectiveRules.of(self._file, self._own) if self._file is not None else None
        self._fill()

    def _tighten(self) -> None:
        """Tighten the rules in force to what the file says now."""
        if self._file is not None and self._held is not None:
            self._held = self._held.tighten(EffectiveRules.of(self._file, self._own))

    def _fill(self) -> None:
        own, held = self._own, self._held
        self.blacklist, self.whitelist = own.blacklist, own.whitelist | RuleSet(self._admitted)
        self.channel: Channel = own.channel
        self.default: Default = own.default or "ask"
        if held is not None:
            self.blacklist = self.blacklist | held.blacklist
            self.whitelist = self.whitelist | held.whitelist
            self.channel, self.default = held.channel, held.default
        self._adopted = self._file.version if self._file is not None else 0
        self.locked: str | None = None
        self.version += 1
        self._rules: dict[Tool, ToolRules] = {}

    @property
    def path(self) -> Path | None:
        """The file lasting answers are written to, if there is one."""
        return self._file.path if self._file else None

    @property
    def untrusted(self) -> bool:
        """Whether there is an untrusted file that allows something."""
        return self._file is not None and not self._file.trusted and self._file.document.loosens

    @property
    def distrust(self) -> str:
        """That the file is not trusted, and how to trust it; empty where there is nothing to trust."""
        if not self.untrusted:
            return ""
        command = f"jaato permissions trust {shlex.quote(str(self.path))}"
        return (
            f"{self.path} is not trusted, so what it allows does not apply: review it, then run `{command}`."
        )

    @property
    def deferred(self) -> bool:
        """Whether the file allows things by now that count in the next session only."""
        if self._file is None or self._held is None:
            return False
        return not self._held.covers(EffectiveRules.of(self._file, self._own))

    def rules_for(self, tool: Tool) -> ToolRules:
        """The rules of both lists for one tool, under any of its names; cached."""
        found = self._rules.get(tool)
        if found is None:
            if len(self._rules) > MAX_KNOWN:
                self._rules.clear()
            found = self._rules[tool] = ToolRules.of(tool, self.blacklist, self.whitelist)
        return found

    def grants(self) -> tuple[Grant, ...]:
        """The lasting grants that hold here."""
        return self._file.grants if self._file else ()

    def rules(self) -> list[RuleLine]:
        """The rules in force, each once with where it comes from."""
        effects: tuple[tuple[Literal["allow", "deny"], str], ...] = (
            ("allow", "whitelist"),
            ("deny", "blacklist"),
        )
        found: list[RuleLine] = []
        for effect, name in effects:
            answers = lines_of(grant for grant in self.grants() if grant.effect == effect).lines()
            sources: dict[str, Literal["session", "file", "answer", "program"]] = {}
            if effect == "allow":
                sources |= dict.fromkeys(sorted(self._admitted), "program")
            if self._held is not None:
                sources |= dict.fromkeys(getattr(self._held, name).lines(), "file")
            sources |= dict.fromkeys((line for line in answers if line in sources), "answer")
            sources |= dict.fromkeys(getattr(self._own, name).lines(), "session")
            found += [RuleLine(effect, line, source) for line, source in sources.items()]
        return found

    def reload(self) -> None:
        """Read the file again, and tighten if it changed; a damaged one locks the policy until it is repaired."""
        if self._file is None:
            return
        self._read_at = monotonic()
        try:
            self._file.reload()
        except ConfigError as error:
            if self.locked != str(error):
                self.locked = str(error)
                self.version += 1
            return
        if self._adopted != self._file.version or self.locked:
            self._tighten()
            self._fill()

    def refresh(self) -> None:
        """`reload`, unless that was less than a second ago: a rule of another process holds in a long turn too."""
        if self._file is not None and monotonic() - self._read_at > FRESH_S:
            self.reload()

    def trust(self) -> None:
        """Trust the file as it is now: from here on it may allow. Raises `ConfigError`, OSError."""
        if self._file is None:
            raise ConfigError("No policy file is in use, so there is nothing to trust.")
        self._file.trust()
        self._adopt()

    def remember(self, grant: Grant) -> None:
        """Write a lasting grant to the file, and trust that write. Raises `ConfigError`, `NotAllowed`, OSError."""
        if self._file is None or self._held is None:
            raise ConfigError("no policy file is in use")
        self._file.remember(grant)
        self._tighten()
        lines = lines_of((grant,))
        if grant.effect == "deny":
            self._held = replace(self._held, blacklist=self._held.blacklist | lines)
        else:
            self._held = replace(self._held, whitelist=self._held.whitelist | (lines & self._file.whitelist))
        self._fill()

    def forget(self, grant_id: str) -> bool:
        """Remove a lasting grant from the file; returns whether there was one. Raises `ConfigError`,
        OSError."""
        grant = self._file.forget(grant_id) if self._file is not None else None
        if grant is None or self._file is None or self._held is None:
            return False
        if grant.effect == "deny":
            self._held = replace(self._held, blacklist=self._held.blacklist - lines_of((grant,)))
        self._tighten()
        self._fill()
        return True
