"""The rules in force: blacklist, whitelist and default, from a file, from flags and from lasting grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError
from jaato.protocol.specs import Grant
from jaato.tools.policy_document import Channel, Default, Document, Rules, from_mapping
from jaato.tools.policy_file import PolicyFile
from jaato.tools.policy_rules import ToolRules

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

STRICTNESS: dict[Default, int] = {"allow": 0, "ask": 1, "deny": 2}
MAX_KNOWN = 4_096
FRESH_S = 1.0


class Policy:
    """What the rules say. `version` rises with every change; `locked` says why nothing can be believed any
    more."""

    def __init__(
        self, document: Document | None = None, *, file: PolicyFile | None = None, read_only: bool = False
    ) -> None:
        self._own = document or Document()
        self._file = file
        self.read_only = read_only
        """Whether only what reads may run, whatever else is allowed."""
        self.version = 0
        self._read_at = monotonic()
        self._admitted: frozenset[str] = frozenset()
        self._fill()

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
    ) -> Policy:
        """The same with rules from the command line: patterns to allow and to deny, another default, or reading only."""
        flags = from_mapping(
            {"whitelist": {"patterns": list(allow)}, "blacklist": {"patterns": list(deny)}}, "--allow/--deny"
        )
        own = self._own
        merged = Document(
            default or own.default,
            own.blacklist | flags.blacklist,
            own.whitelist | flags.whitelist,
            own.channel,
        )
        return Policy(merged, file=self._file, read_only=read_only or self.read_only)

    def admit(self, names: Iterable[str]) -> None:
        """Let just these tools be called, beside those that rules allow; what a rule denies stays denied."""
        self._admitted = frozenset(names)
        self._fill()

    def _fill(self) -> None:
        own, file = self._own, self._file
        self.blacklist, self.whitelist = own.blacklist, own.whitelist | Rules(self._admitted)
        self.channel: Channel = own.channel
        self.default: Default = own.default or "ask"
        if file is not None:
            self.blacklist = self.blacklist | file.document.blacklist
            self.whitelist = self.whitelist | file.whitelist
            given = file.document.default
            if file.trusted:
                self.channel = file.document.channel
                self.default = own.default or given or "ask"
            elif given is not None:
                self.default = max(self.default, given, key=lambda one: STRICTNESS[one])
        self.locked: str | None = None
        self.version += 1
        self._rules: dict[Tool, ToolRules] = {}

    @property
    def path(self) -> Path | None:
        """The file lasting answers are written to, if there is one."""
        return self._file.path if self._file else None

    @property
    def untrusted(self) -> bool:
        """Whether a file is there that allows things and nobody has trusted."""
        return self._file is not None and not self._file.trusted and self._file.document.loosens

    def rules_for(self, tool: Tool) -> ToolRules:
        """What the two lists say about one tool, under any of its names."""
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
        """Read the file again if it changed; a damaged one locks the policy until it is repaired."""
        if self._file is None:
            return
        self._read_at = monotonic()
        try:
            changed = self._file.reload()
        except ConfigError as error:
            if self.locked != str(error):
                self.locked = str(error)
                self.version += 1
            return
        if changed or self.locked:
            self._fill()

    def refresh(self) -> None:
        """`reload`, unless that was less than a second ago: a rule of another process holds in a long turn too."""
        if self._file is not None and monotonic() - self._read_at > FRESH_S:
            self.reload()

    def trust(self) -> None:
        """Vouch for the file as it is now: from here on it may allow. Raises `ConfigError`, OSError."""
        if self._file is None:
            raise ConfigError("No policy file is in use, so there is nothing to trust.")
        self._file.trust()
        self._fill()

    def remember(self, grant: Grant) -> None:
        """Write a lasting grant to the file, and trust that write. Raises `ConfigError`, OSError."""
        if self._file is None:
            raise ConfigError("no policy file is in use")
        self._file.remember(grant)
        self._fill()

    def forget(self, grant_id: str) -> bool:
        """Take a lasting grant out of the file; tells whether there was one. Raises `ConfigError`,
        OSError."""
        if self._file is None or not self._file.forget(grant_id):
            return False
        self._fill()
        return True
