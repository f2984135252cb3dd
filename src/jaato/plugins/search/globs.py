"""Glob patterns and .gitignore rules, matched part by part in time linear in both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaato.errors import InvalidArguments

MAX_GLOB = 1000
MAX_BRACES = 256
MAX_RULES = 20_000

Part = Callable[[str], object] | None
"""Matches one name; None is `**`, any number of them."""

CLASS = re.compile(r"\[([!^]?)((?:\]|\\.|[^\]\\])(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]", re.DOTALL)
POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9a-fA-F",
}  # fmt: skip


def part_of(text: str) -> Part:
    """The matcher of one part; `*` and `?` and `[…]` match within it. Never backtracks past a star."""
    if text == "**":
        return None
    pieces: list[str] = [""]  # between stars
    at = 0
    while at < len(text):
        letter = text[at]
        found = CLASS.match(text, at) if letter == "[" else None
        if letter == "*":
            pieces.append("")
        elif letter == "?":
            pieces[-1] += "."
        elif found is not None:
            pieces[-1] += class_of(found)
            at = found.end() - 1
        elif letter == "\\" and at + 1 < len(text):
            at += 1
            pieces[-1] += re.escape(text[at])
        else:
            pieces[-1] += re.escape(letter)
        at += 1
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL).fullmatch
    first, *middle, last = pieces
    # Each star takes as little as lets what follows it match, and keeps that: right, since a later star can take more.
    steps = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{steps}.*{last}", re.DOTALL).fullmatch


def class_of(found: re.Match[str]) -> str:
    """A class of a glob as a regular expression; one that holds nothing matches nothing."""
    body = ""
    inside = found[2]
    at = 0
    while at < len(inside):
        posix = re.compile(r"\[:([a-z]+):\]").match(inside, at)
        if posix is not None and posix[1] in POSIX:
            body += POSIX[posix[1]]
            at = posix.end()
            continue
        low, at = class_letter(inside, at)
        if inside[at : at + 1] == "-" and at + 1 < len(inside):
            high, at = class_letter(inside, at + 1)
            body += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            body += re.escape(low)
    if not body:
        return "." if found[1] else r"[^\s\S]"
    return f"[{'^' if found[1] else ''}{body}]"


def class_letter(inside: str, at: int) -> tuple[str, int]:
    """One letter of a class, and where the next begins."""
    if inside[at] == "\\" and at + 1 < len(inside):
        return inside[at + 1], at + 2
    return inside[at], at + 1


def matches(parts: Sequence[Part], names: Sequence[str]) -> bool:
    """Whether the names fit the parts; a `**` at the end stands for one name at least."""
    if parts and parts[-1] is None and not names:
        return False
    at = name = 0
    star: int | None = None
    resume = 0
    while name < len(names):
        if at < len(parts) and parts[at] is None:
            star, resume = at, name
            at += 1
            if at == len(parts):
                return True
            continue
        part = parts[at] if at < len(parts) else None
        if part is not None and part(names[name]):
            at += 1
            name += 1
        elif star is not None:
            resume += 1
            at, name = star + 1, resume
        else:
            return False
    return at == len(parts)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a .gitignore."""

    parts: tuple[Part, ...]
    keeps: bool
    only_directories: bool

    def fits(self, names: Sequence[str], is_directory: bool) -> bool:
        """Whether it speaks of this path, given below the directory of its file."""
        return (is_directory or not self.only_directories) and matches(self.parts, names)


def rules_of(text: str) -> list[Rule]:
    """The rules of a .gitignore; lines that say nothing, or nothing sensible, are passed over."""
    rules: list[Rule] = []
    for line in text.removeprefix("\ufeff").split("\n")[:MAX_RULES]:
        rule = rule_of(line.removesuffix("\r"))
        if rule is not None:
            rules.append(rule)
    return rules


def rule_of(line: str) -> Rule | None:
    """One line of a .gitignore as a rule."""
    while line.endswith(" ") and not re.search(r"(?<!\\)(?:\\\\)*\\ $", line):
        line = line[:-1]
    if not line or line.startswith("#") or len(line) > MAX_GLOB:
        return None
    keeps = line.startswith("!")
    line = line[keeps:]
    only_directories = line.endswith("/")
    line = line[:-1] if only_directories else line
    if not line or (line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2):
        return None
    anchored = "/" in line
    names = line.removeprefix("/").split("/")
    if not all(names) or any(map(unclosed, names)):
        return None
    parts = [part_of(name) for name in names]
    return Rule(tuple(parts if anchored else [None, *parts]), keeps, only_directories)


def unclosed(text: str) -> bool:
    """Whether a bracket is opened and never closed: to git such a pattern matches nothing at all."""
    at = 0
    while at < len(text):
        found = CLASS.match(text, at) if text[at] == "[" else None
        if text[at] == "[" and found is None:
            return True
        at = found.end() if found is not None else at + (2 if text[at] == "\\" else 1)
    return False


def expand(pattern: str) -> list[str]:
    """The pattern once for every choice of its braces; raises `InvalidArguments` when those are too many."""
    if len(pattern) > MAX_GLOB:
        raise InvalidArguments(f"The glob has {len(pattern)} characters; at most {MAX_GLOB} are possible.")
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        found = braces(one)
        if found is None:
            done.append(one)
        else:
            start, end, choices = found
            waiting += [one[:start] + choice + one[end:] for choice in reversed(choices)]
        if len(done) + len(waiting) > MAX_BRACES:
            raise InvalidArguments(
                f"The glob's braces make more than {MAX_BRACES} patterns. Use fewer choices or *."
            )
    return list(dict.fromkeys(done))


def braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first braces with a choice in them: where they start and end, and the choices."""
    start = -1
    while (start := text.find("{", start + 1)) >= 0:
        depth = 0
        choices = [""]
        at = start
        if (start - len(text[:start].rstrip("\\"))) % 2:
            continue  # escaped
        while at < len(text):
            letter = text[at]
            if letter == "\\":
                choices[-1] += text[at : at + 2]
                at += 2
                continue
            depth += (letter == "{") - (letter == "}")
            if depth == 0:
                if len(choices) > 1:
                    return start, at + 1, choices
                break
            if letter == "," and depth == 1:
                choices.append("")
            elif at > start:
                choices[-1] += letter
            at += 1
    return None


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob over paths, braces and all: a path fits when it fits one of the choices."""

    choices: tuple[tuple[Part, ...], ...]

    @classmethod
    def of(cls, pattern: str, *, anywhere: bool = False) -> Glob:
        """The glob; `anywhere` lets one without a slash match at any depth. Raises `InvalidArguments`."""
        if not pattern.strip("/ ") or "\0" in pattern:
            raise InvalidArguments("The glob is empty. Give one such as **/*.py.")
        choices: list[tuple[Part, ...]] = []
        for choice in expand(pattern):
            names = [name for name in choice.split("/") if name not in ("", ".")]
            if choice.endswith("/") and names and names[-1] != "**":
                names.append("**")  # a directory is chosen with what is in it
            if ".." in names:
                raise InvalidArguments(
                    "The glob has .. in it. Say where to start with the directory instead."
                )
            if names:
                parts = [part_of(name) for name in names]
                choices.append(tuple([None, *parts] if anywhere and len(parts) == 1 and parts[0] else parts))
        return cls(tuple(choices))

    def fits(self, names: Sequence[str]) -> bool:
        """Whether a path, as its names, fits."""
        return any(matches(parts, names) for parts in self.choices)
