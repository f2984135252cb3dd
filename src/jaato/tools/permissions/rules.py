"""The rules of a policy that concern one tool, and how a pattern matches arguments or a command."""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from jaato.lazy_pattern import lazy_pattern
from jaato.tools.filesystem.atomic import resolve_path
from jaato.tools.permissions.policy_document import RuleSet, split_pattern

# The parser of the shell is imported where a command is judged, and where a policy has a pattern over commands.
if TYPE_CHECKING:
    from jaato.tools.shell.parser import Analysis
    from jaato.tools.shell.patterns import ShellPattern
    from jaato.tools.tool import Tool

SHELL_TOOLS: Mapping[str, str] = {"run": "command", "shell_spawn": "command", "shell_input": "text"}
"""The tools whose argument is a shell command, and that argument."""
TYPED_TOOLS = frozenset(("shell_input",))
"""Those whose input an unknown program reads: no rule for commands allows it."""
RUN_NAMES = ("run", "cli_based_tool", "cli_execute", "runCommand")
"""The names of the tool whose refusals hold for every shell tool."""
URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
ADDRESS = lazy_pattern(r"(?P<scheme>[^/:]+)://(?P<host>[^/\\?#]*)(?P<path>.*)", re.DOTALL)
ADDRESS_GLOB = lazy_pattern(r"(?P<scheme>[^/:]+)://(?P<host>[^/\\#]*)(?P<path>.*)", re.DOTALL)
"""The same for a pattern, where `?` is a wild character and begins no query."""
MAX_GLOB_CHARS = 65_536
MAX_PATH_CHARS = 4_096

Pair = tuple[str, tuple[str, ...]]
"""An argument and the patterns for its value."""


class ToolRules(msgspec.Struct, frozen=True):
    """The rules for one tool. `denied` and `allowed` name the rule for every call of it.

    Inner patterns stand in `tool(…)`; for a shell tool they are patterns over commands.
    """

    denied: str | None
    allowed: str | None
    deny_inner: tuple[str, ...]
    allow_inner: tuple[str, ...]
    deny_arguments: tuple[Pair, ...]
    allow_arguments: tuple[tuple[Pair, ...], ...]
    shell: tuple[ShellPattern, ...]

    @classmethod
    def of(cls, tool: Tool, blacklist: RuleSet, whitelist: RuleSet) -> ToolRules:
        """Collect what concerns this tool under any of its names."""
        names = (tool.name, *tool.aliases, *((tool.original_name,) if tool.original_name else ()))
        command = SHELL_TOOLS.get(tool.name)
        refused = (*names, *RUN_NAMES) if command is not None else names
        refused = (*refused, tool.bare) if tool.bare else refused
        denied, deny_inner = by_name(refused, blacklist, command is not None)
        allowed, allow_inner = by_name(names, whitelist, command is not None and tool.name not in TYPED_TOOLS)
        deny_arguments = [
            pair for name in dict.fromkeys(refused) for pair in rename_arguments(tool, name, blacklist)
        ]
        groups = [
            tuple(rename_arguments(tool, name, whitelist)) for name in names if name in whitelist.arguments
        ]
        texts = list(allow_inner) if command else []
        for group in list(groups):
            if command and len(group) == 1 and group[0][0] == command:
                texts += group[0][1]
                groups.remove(group)
        shell = tuple(command_patterns(texts)) if texts else ()
        inner = () if command else tuple(allow_inner)
        return cls(denied, allowed, tuple(deny_inner), inner, tuple(deny_arguments), tuple(groups), shell)

    @property
    def by_name_only(self) -> bool:
        """Whether no rule looks at the arguments."""
        return not (
            self.deny_inner or self.allow_inner or self.deny_arguments or self.allow_arguments or self.shell
        )

    def denies(self, arguments: Mapping[str, Any], main: str | None, place: str) -> str | None:
        """The blacklist rule that these arguments meet, in any spelling of a path."""
        for name, globs in self.deny_arguments:
            for text in (one for value in values_of(arguments, name) for one in spellings(value, place)):
                if found := next((glob for glob in globs if fnmatch.fnmatchcase(text, glob)), None):
                    return f"{name} matches {found!r} in the blacklist"
        for pattern in self.deny_inner:
            if inner_denies(pattern, arguments, main, place):
                return f"matches {pattern!r} in the blacklist"
        return None

    def allows(self, arguments: Mapping[str, Any], main: str | None, place: str) -> str | None:
        """The whitelist rule that covers these arguments."""
        for group in self.allow_arguments:
            if group and all(is_covered(arguments, name, globs, place) for name, globs in group):
                return f"{' and '.join(name for name, _ in group)} in the whitelist"
        for pattern in self.allow_inner:
            if all(is_covered(arguments, name, (glob,), place) for name, glob in pairs_of(pattern, main)):
                return f"{pattern!r} in the whitelist"
        return None

    def denies_command(self, analysis: Analysis) -> str | None:
        """The blacklist pattern that the command, a part of it or something it quotes meets."""
        if not self.deny_inner and not self.deny_arguments:
            return None
        from jaato.tools.shell.indirection import blacklist_texts
        from jaato.tools.shell.parser import CONTINUATION, parse_command

        texts = {analysis.command, analysis.command.strip(), *blacklist_texts(analysis)}
        if CONTINUATION in analysis.command:
            texts.update(blacklist_texts(parse_command(analysis.command.replace(CONTINUATION, ""))))
        return self._find_denial(texts)

    def mentions_command(self, analysis: Analysis) -> str | None:
        """The blacklist pattern that a text inside an argument meets, which some program may take as a command."""
        if not self.deny_inner and not self.deny_arguments:
            return None
        from jaato.tools.shell.indirection import find_quoted_texts

        return self._find_denial(set(find_quoted_texts(analysis)))

    def _find_denial(self, texts: set[str]) -> str | None:
        patterns = [*self.deny_inner, *(glob for _name, globs in self.deny_arguments for glob in globs)]
        for pattern in patterns:
            for form in command_forms(pattern):
                if any(fnmatch.fnmatchcase(text, form) for text in texts):
                    return f"matches {pattern!r} in the blacklist"
        return None


def by_name(names: tuple[str, ...], rules: RuleSet, shell: bool) -> tuple[str | None, list[str]]:
    """The rule that names a tool whole, if any, and the inner patterns for it."""
    whole = next((name for name in names if name in rules.tools), None)
    inner: list[str] = []
    for pattern in rules.patterns:
        tool, inside = split_pattern(pattern)
        matches = any(fnmatch.fnmatchcase(name, tool) for name in names)
        if inside is None:
            if matches:
                whole = whole or pattern
            elif shell:
                inner.append(pattern)
        elif matches and inside == "*":
            whole = whole or pattern
        elif matches:
            inner.append(inside)
    return whole, inner


def rename_arguments(tool: Tool, name: str, rules: RuleSet) -> list[Pair]:
    """The argument rules under one name of a tool, with the arguments called as the tool calls them."""
    rename = tool.aliases.get(name, {})
    return [
        (rename.get(argument, argument), globs) for argument, globs in rules.arguments.get(name, {}).items()
    ]


def values_of(arguments: Mapping[str, Any], name: str) -> list[str]:
    """The values of an argument as text, those of a list one by one."""
    if name not in arguments:
        return []
    value = arguments[name]
    return [as_text(item) for item in value] if isinstance(value, list) else [as_text(value)]


def as_text(value: Any) -> str:
    """A value as a pattern sees it: a string as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)


def pathlike(value: str) -> bool:
    """Whether a value can be the path of a file at all."""
    return 0 < len(value) <= MAX_PATH_CHARS and "\0" not in value and URL.match(value) is None


def spellings(value: str, place: str) -> tuple[str, ...]:
    """A value as written and, where it may be a path, also normalised, and with links followed."""
    if not pathlike(value):
        return (value,)
    real = resolve_path(os.path.join(place, value))
    return (value, os.path.normpath(value), real, os.path.relpath(real, resolve_path(place)))


def is_covered(arguments: Mapping[str, Any], name: str, globs: tuple[str, ...], place: str) -> bool:
    """Whether every value of an argument is covered; a path must also be when normalised and its links
    followed."""
    values = values_of(arguments, name)
    return bool(values) and all(is_value_covered(value, globs, place) for value in values)


def is_value_covered(value: str, globs: tuple[str, ...], place: str) -> bool:
    """Whether one value is covered by one of the patterns, however it is spelled."""
    if len(value) > MAX_GLOB_CHARS or "\0" in value:
        return "*" in globs
    if not any(fnmatch.fnmatchcase(value, glob) for glob in globs):
        return False
    if URL.match(value) is not None:
        return any(is_url_covered(value, glob) for glob in globs)
    if not pathlike(value) or ("/" not in value and not os.path.lexists(os.path.join(place, value))):
        return True
    _written, normal, real, below = spellings(value, place)
    forms = (normal, real) if os.path.isabs(value) else (normal, below)
    return all(any(fnmatch.fnmatchcase(form, glob) for glob in globs) for form in forms)


def is_url_covered(value: str, glob: str) -> bool:
    """Whether a pattern covers a URL: a `*` in its host stays in the host, and no `..` leads away from its path."""
    shape, url = ADDRESS_GLOB.match(glob), ADDRESS.match(value)
    if shape is None or url is None:  # a pattern without `://` is about the whole text, whatever it is
        return fnmatch.fnmatchcase(value, glob) and (glob == "*" or ".." not in unquote(value))
    host, path = url["host"], url["path"]
    if not fnmatch.fnmatchcase(host.lower(), shape["host"].lower()) or (
        "@" in host and "@" not in shape["host"]
    ):
        return False
    if not fnmatch.fnmatchcase(url["scheme"].lower(), shape["scheme"].lower()):
        return False
    if shape["path"] in ("", "*", "/*"):
        return fnmatch.fnmatchcase(path, shape["path"])
    steps = re.split(r"[/\\]", unquote(unquote(path)).partition("?")[0].partition("#")[0])
    return ".." not in steps and fnmatch.fnmatchcase(path, shape["path"])


def pairs_of(pattern: str, main: str | None) -> list[tuple[str, str]]:
    """Parse the inside of `tool(…)`: `name=glob, name=glob`, or a glob over the main argument."""
    pieces = [piece.partition("=") for piece in pattern.split(", ")]
    if all(equals and name.isidentifier() for name, equals, _ in pieces):
        return [(name, glob) for name, _, glob in pieces]
    return [(main or "", pattern)]


def inner_denies(pattern: str, arguments: Mapping[str, Any], main: str | None, place: str) -> bool:
    """Whether `tool(pattern)` in the blacklist meets these arguments, in any spelling."""
    return all(
        any(
            fnmatch.fnmatchcase(text, glob)
            for value in values_of(arguments, name)
            for text in spellings(value, place)
        )
        for name, glob in pairs_of(pattern, main)
    )


def command_patterns(texts: Iterable[str]) -> list[ShellPattern]:
    """The patterns over commands that these texts are."""
    from jaato.tools.shell.patterns import shell_pattern

    return [pattern for text in texts if (pattern := shell_pattern(text))]


@functools.lru_cache(maxsize=1024)
def command_forms(pattern: str) -> tuple[str, ...]:
    """A blacklist pattern over commands as globs: as written, without its quotes, and without a last ` *`; a last
    `:*`, by which other programs say ` *`, forbids that, too."""
    from jaato.tools.shell.patterns import glob_text
    from jaato.tools.shell.words import lex

    forms = [pattern]
    if pattern.endswith(":*"):
        forms.append(f"{pattern[:-2]} *")
    tokens = lex(pattern)
    if tokens:
        forms.append(" ".join(glob_text(token) for token in tokens))
    forms += [form[:-2] for form in forms if form.endswith(" *")]
    return tuple(dict.fromkeys(forms))
