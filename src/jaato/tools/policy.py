"""The rules in force: blacklist, whitelist and default, from a file, from flags and from lasting grants."""

from __future__ import annotations

import fnmatch
import functools
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError
from jaato.protocol.specs import Grant
from jaato.tools.policy_document import Channel, Default, Document, Rules, from_mapping, split_pattern
from jaato.tools.shell_policy import Analysis, ShellPattern, shell_pattern, texts_of
from jaato.tools.shell_words import lex

if TYPE_CHECKING:
    from pathlib import Path

    from jaato.tools.policy_file import PolicyFile
    from jaato.tools.tool import Tool

SHELL_TOOLS: Mapping[str, str] = {"run": "command"}
"""The tools whose argument is a shell command, and that argument."""
STRICTNESS: dict[Default, int] = {"allow": 0, "ask": 1, "deny": 2}
MAX_GLOB_CHARS = 65_536


class Policy:
    """What the rules say; immutable but for `reload`, `remember` and `forget`, each of which raises `version`."""

    def __init__(self, document: Document | None = None, *, file: PolicyFile | None = None) -> None:
        self._own = document or Document()
        self._file = file
        self.version = 0
        self._fill(file.document if file else Document())

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "the policy") -> Policy:
        """A policy from decoded JSON that is trusted as it stands. Raises `ConfigError`."""
        return cls(from_mapping(dict(document), where))

    @classmethod
    def load(
        cls, path: Path, *, workspace: Path | None = None, state_dir: Path | None = None, trusted: bool | None = None
    ) -> Policy:
        """The policy of a file, which need not exist.

        A file inside the workspace only tightens until its content is trusted in `state_dir`; `trusted` decides
        otherwise. Raises `ConfigError` naming file, line or field, and the remedy.
        """
        from jaato.tools.policy_file import PolicyFile

        return cls(file=PolicyFile(path, workspace=workspace, state_dir=state_dir, trusted=trusted))

    def with_flags(
        self, *, allow: Iterable[str] = (), deny: Iterable[str] = (), default: Default | None = None
    ) -> Policy:
        """The same with rules from the command line: patterns to allow and to deny, and another default."""
        document = from_mapping(
            {"whitelist": {"patterns": list(allow)}, "blacklist": {"patterns": list(deny)}}, "--allow/--deny"
        )
        own = self._own
        merged = Document(
            default or own.default, own.blacklist | document.blacklist, own.whitelist | document.whitelist, own.channel
        )
        return Policy(merged, file=self._file)

    def _fill(self, document: Document) -> None:
        self.blacklist = self._own.blacklist | document.blacklist
        self.whitelist = self._own.whitelist | document.whitelist
        self.channel: Channel = document.channel if document.channel.type else self._own.channel
        trusted = self._file is None or self._file.trusted
        given: list[Default] = [one for one in (self._own.default, document.default) if one is not None]
        self.default: Default = "ask"
        if trusted and self._own.default is None and document.default is not None:
            self.default = document.default
        elif given:
            tightest = max(given, key=STRICTNESS.__getitem__)
            self.default = tightest if self._own.default is not None else max(("ask", tightest), key=STRICTNESS.get)  # type: ignore[arg-type]
        self.locked: str | None = None
        self.version += 1
        self._covering = tuple(self._shell_rules())
        self._about.cache_clear()

    @property
    def path(self) -> Path | None:
        """The file lasting answers are written to, if there is one."""
        return self._file.path if self._file else None

    @property
    def untrusted(self) -> bool:
        """Whether a file is there that allows things and nobody has trusted."""
        return self._file is not None and not self._file.trusted and self._file.loosens
