"""The policy in force: blacklist, whitelist and default, from a file, from flags and from lasting grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jaato.errors import ConfigError
from jaato.protocol.specs import Grant, Mode, SandboxAccess
from jaato.tools.permissions.access import WORKSPACE_WRITE
from jaato.tools.permissions.policy_document import Channel, Default, PolicyDocument, RuleSet, from_mapping
from jaato.tools.permissions.policy_file import PolicyFile, lines_of
from jaato.tools.permissions.rules import ToolRules

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

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
        """Change the mode: only a person says so, never a file. Raises `ConfigError` for what is to stay read-only."""
        if self.mode == "read-only" and mode != "read-only":
            raise ConfigError("This session was begun to read only and stays so; begin another one.")
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
