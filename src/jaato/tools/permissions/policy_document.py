"""The permission file as data: parse and validate it, each fault named by its line or field."""

from __future__ import annotations

import json
import math
from typing import Any, Literal, NoReturn, cast

import msgspec

from jaato.errors import ConfigError

Default = Literal["allow", "deny", "ask"]
MAX_BYTES = 1_048_576
MAX_RULES = 10_000
VERSION = 1
MAX_TIMEOUT_S = 31_536_000
KEYS = ("version", "defaultPolicy", "blacklist", "whitelist", "channel")
FOREIGN_SHELLS = ("Bash", "Shell")
"""Names of shell tools of other programs, in patterns that users copy."""
RULE_KEYS = ("tools", "patterns", "arguments")


class RuleSet(msgspec.Struct, frozen=True):
    """One list of a policy: names, patterns, and patterns for single arguments."""

    tools: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    arguments: dict[str, dict[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)

    def __or__(self, other: RuleSet) -> RuleSet:
        """The rules of both."""
        merged = {tool: dict(entries) for tool, entries in self.arguments.items()}
        for tool, entries in other.arguments.items():
            mine = merged.setdefault(tool, {})
            for name, globs in entries.items():
                mine[name] = tuple(dict.fromkeys((*mine.get(name, ()), *globs)))
        return RuleSet(
            self.tools | other.tools, tuple(dict.fromkeys((*self.patterns, *other.patterns))), merged
        )

    def __and__(self, other: RuleSet) -> RuleSet:
        """Of a whitelist, what both allow: the lines that stand in both, and of argument rules every condition of either."""
        common: dict[str, dict[str, tuple[str, ...]]] = {}
        for tool in self.arguments.keys() & other.arguments.keys():
            mine, theirs = self.arguments[tool], other.arguments[tool]
            common[tool] = {**theirs, **mine} | {
                name: tuple(glob for glob in mine[name] if glob in theirs[name])
                for name in mine.keys() & theirs.keys()
            }
        patterns = tuple(text for text in self.patterns if text in other.patterns)
        return RuleSet(self.tools & other.tools, patterns, common)

    def __sub__(self, other: RuleSet) -> RuleSet:
        """These rules without the names and patterns of others."""
        patterns = tuple(text for text in self.patterns if text not in other.patterns)
        return RuleSet(self.tools - other.tools, patterns, self.arguments)

    def lines(self) -> list[str]:
        """Each rule in one line: names and patterns, then patterns for arguments."""
        conditions = (
            f"{tool} with {name} {', '.join(globs)}"
            for tool, entries in self.arguments.items()
            for name, globs in entries.items()
        )
        return [*sorted({*self.tools, *self.patterns}), *conditions]


class Channel(msgspec.Struct, frozen=True):
    """The channel for questions; `timeout_s` None waits without a deadline."""

    type: str | None = None
    endpoint: str | None = None
    timeout_s: float | None = None


class PolicyDocument(msgspec.Struct, frozen=True):
    """A permission file; `raw` keeps what is not understood, so that a rewrite loses nothing."""

    default: Default | None = None
    blacklist: RuleSet = msgspec.field(default_factory=RuleSet)
    whitelist: RuleSet = msgspec.field(default_factory=RuleSet)
    channel: Channel = msgspec.field(default_factory=Channel)
    raw: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def loosens(self) -> bool:
        """Whether it allows anything that would need a permission question without it."""
        rules = self.whitelist
        return self.default == "allow" or bool(rules.tools or rules.patterns or rules.arguments)


def parse_document(content: bytes, where: str) -> PolicyDocument:
    """A permission file from its bytes. Raises `ConfigError` naming file, line or field, and the remedy."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                fail(where, f"the key {name!r} appears twice in one object", "Merge the two.")
            found[name] = value
        return found

    def constant(name: str) -> NoReturn:
        fail(where, f"{name} is not JSON", "Use a plain number.")

    try:
        text = content.decode("utf-8-sig")  # some editors put a byte order mark in front
        document = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except UnicodeDecodeError as error:
        fail(where, f"byte {error.start} is not UTF-8", "Save the file as UTF-8.")
    except json.JSONDecodeError as error:
        fail(where, f"line {error.lineno}, column {error.colno}: {error.msg}", "Correct the JSON there.")
    except ValueError:
        fail(where, "it has a number of thousands of digits", "Write a plain number.")
    except RecursionError:
        fail(where, "it is nested too deeply", "A permission file needs four levels.")
    return from_mapping(document, where)


def from_mapping(document: Any, where: str) -> PolicyDocument:
    """A permission file from decoded JSON. Raises `ConfigError`."""
    if not isinstance(document, dict):
        fail(where, f"it holds {kind_of(document)}, not an object", 'Write {"version": 1, …}.')
    for name in document:
        if name not in KEYS and (key := find_misspelled(name)):
            fail(where, f"the field {name!r} is not known", f"Did you mean {key!r}?")
    version = document.get("version", VERSION)
    if str(version) not in ("1", "1.0") or isinstance(version, bool):
        fail(
            where,
            f"version is {repr(version)[:40]}",
            "This jaato reads version 1; a newer file needs a newer jaato.",
        )
    default = document.get("defaultPolicy")
    if default is not None and default not in ("allow", "deny", "ask"):
        fail(where, f"defaultPolicy is {default!r}", 'Write "allow", "deny" or "ask".')
    return PolicyDocument(
        default=cast("Default | None", default),
        blacklist=rules_from(document.get("blacklist", {}), "blacklist", where),
        whitelist=rules_from(document.get("whitelist", {}), "whitelist", where),
        channel=channel_from(document.get("channel", {}), where),
        raw=document,
    )


def rules_from(value: Any, field_name: str, where: str) -> RuleSet:
    """One of the two lists. Raises `ConfigError`."""
    if not isinstance(value, dict):
        fail(
            where,
            f"{field_name} is {kind_of(value)}",
            'Write {"tools": [], "patterns": [], "arguments": {}}.',
        )
    for name in value:
        if name not in RULE_KEYS:
            fail(where, f"{field_name}.{name} is not known", f"The keys are {', '.join(RULE_KEYS)}.")
    tools = texts(value.get("tools", []), f"{field_name}.tools", where)
    patterns = texts(value.get("patterns", []), f"{field_name}.patterns", where)
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        fail(
            where,
            f"{field_name}.arguments is {kind_of(arguments)}",
            'Write {"tool": {"argument": ["pattern"]}}.',
        )
    built: dict[str, dict[str, tuple[str, ...]]] = {}
    for tool, entries in arguments.items():
        at = f"{field_name}.arguments.{tool}"
        if not isinstance(entries, dict):
            fail(where, f"{at} is {kind_of(entries)}", 'Write {"argument": ["pattern"]}.')
        if not entries:
            fail(where, f"{at} names no argument", f"Name one, or put {tool!r} into {field_name}.tools.")
        built[tool] = {name: texts(globs, f"{at}.{name}", where) for name, globs in entries.items()}
    if len(tools) + len(patterns) + len(built) > MAX_RULES:
        fail(where, f"{field_name} has more than {MAX_RULES:,} rules", "Use patterns for families of rules.")
    for index, pattern in enumerate(patterns):
        check_meaning(pattern, f"{field_name}.patterns[{index}]", where)
        if field_name == "whitelist":
            check_pattern(pattern, f"whitelist.patterns[{index}]", where)
    return RuleSet(frozenset(tools), tuple(patterns), built)


def check_meaning(pattern: str, at: str, where: str) -> None:
    """Refuse a pattern that has a meaning in other programs and none here."""
    tool, inner = split_pattern(pattern)
    if inner is None and " " not in pattern and pattern.count("(") > pattern.count(")"):
        fail(where, f"{at} {pattern!r} has no closing parenthesis", "Write tool(pattern).")
    if inner is None or not inner.endswith(":*"):
        return
    command = inner.removesuffix(":*")
    if tool in FOREIGN_SHELLS or (tool == "run" and " " not in command):
        fail(
            where,
            f"{at} {pattern!r} covers no command",
            f"The shell tool is `run`: write 'run({command} *)'.",
        )


def check_pattern(pattern: str, at: str, where: str) -> None:
    """Refuse a pattern that can never cover anything."""
    from jaato.tools.shell.patterns import shell_pattern  # many policies have no pattern

    tool, inner = split_pattern(pattern)
    command = pattern if inner is None else inner if tool == "run" else ""
    if (" " in command or tool == "run") and command and shell_pattern(command) is None:
        remedy = "Write one command (or one pipeline) of plain words; quote what is special to the shell."
        fail(where, f"{at} {pattern!r} covers no command", remedy)


def split_pattern(pattern: str) -> tuple[str, str | None]:
    """`tool(inner)` as its two halves; without parentheses at the end the whole, and None."""
    name, bracket, rest = pattern.partition("(")
    if bracket and rest.endswith(")") and name and not set(name) & set(" \t\n'\"$/;|&<>"):
        return name, rest[:-1]
    return pattern, None


def channel_from(value: Any, where: str) -> Channel:
    """Parse the channel. Raises `ConfigError`."""
    if not isinstance(value, dict):
        fail(where, f"channel is {kind_of(value)}", 'Write {"type": "console"}.')
    kind, endpoint, timeout = value.get("type"), value.get("endpoint"), value.get("timeout")
    for name, item in (("type", kind), ("endpoint", endpoint)):
        if item is not None and not isinstance(item, str):
            fail(where, f"channel.{name} is {kind_of(item)}", "Write a string.")
    if timeout is not None and (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 < timeout <= MAX_TIMEOUT_S
        or math.isnan(timeout)
    ):
        fail(
            where, f"channel.timeout is {str(timeout)[:40]}", "Write seconds, more than 0 and at most a year."
        )
    return Channel(kind, endpoint, None if timeout is None else float(timeout))


def texts(value: Any, at: str, where: str) -> tuple[str, ...]:
    """A list of strings. Raises `ConfigError`."""
    if not isinstance(value, list):
        fail(where, f"{at} is {kind_of(value)}", "Write a list of strings.")
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item.strip() or len(item) > 10_000:
            fail(
                where,
                f"{at}[{index}] is {kind_of(item)}",
                "Write a string that is neither empty nor endless.",
            )
    return tuple(value)


def kind_of(value: Any) -> str:
    """A JSON value's kind, for a message."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def find_misspelled(name: str) -> str | None:
    """The key that is probably meant; unrelated unknown keys are kept."""
    from difflib import get_close_matches  # for a mistake

    keys = {squeeze_key(key): key for key in KEYS}
    return next((keys[one] for one in get_close_matches(squeeze_key(name), keys, 1, 0.8)), None)


def squeeze_key(name: str) -> str:
    """A key without case and separators, to recognise a misspelling."""
    return name.replace("_", "").replace("-", "").casefold()


def fail(where: str, what: str, remedy: str) -> NoReturn:
    """Refuse the file. Raises `ConfigError`."""
    raise ConfigError(f"{where}: {what}. {remedy} Until then nothing it would allow is allowed.")
