"""Shell commands as a grant sees them: what each part needs, what a rule covers, what a lasting answer
would cover."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jaato.tools.atomic import resolved
from jaato.tools.shell_parse import analyse
from jaato.tools.shell_parts import Analysis, Part
from jaato.tools.shell_paths import path_doubt
from jaato.tools.shell_programs import (
    HARMLESS_VALUE,
    HARMLESS_VARIABLES,
    base_name,
    executing_flag,
    interprets,
    last_name,
    obeys_input,
    runs_others,
    width,
)
from jaato.tools.shell_reads import read_doubt
from jaato.tools.shell_words import Word, lex, read_piece, read_word
from jaato.tools.verdict import PartVerdict

__all__ = ["Analysis", "Part", "ShellPattern", "analyse", "judge", "places_of", "shell_pattern", "texts_of"]

MAX_PLACES = 8


@dataclass(frozen=True, slots=True)
class PatternWord:
    """One word of a pattern: the exact text, or an expression over it."""

    text: str
    expression: re.Pattern[str] | None
    rest: bool = False
    """It is a last `*`: it covers any further words, or none."""

    def matches(self, value: str) -> bool:
        """Whether it covers this word."""
        return value == self.text if self.expression is None else self.expression.match(value) is not None


@dataclass(frozen=True, slots=True)
class ShellPattern:
    """A pattern over commands, word by word; several commands when it is a whole pipeline."""

    text: str
    commands: tuple[tuple[PatternWord, ...], ...]

    def covers(self, parts: tuple[Part, ...]) -> bool:
        """Whether it covers this command, or this whole pipeline."""
        return len(parts) == len(self.commands) and all(
            covers_words(words, part.words) for words, part in zip(self.commands, parts, strict=True)
        )


@functools.lru_cache(maxsize=1024)
def shell_pattern(text: str) -> ShellPattern | None:
    """A pattern from its text: words as in a shell, `*`, `?` and `[…]` outside quotes are wild; None when
    it is none."""
    tokens = lex(text)
    if not tokens:
        return None
    commands: list[list[PatternWord]] = [[]]
    for token in tokens:
        if token == "|":  # noqa: S105 an operator
            commands.append([])
        elif token in ("|&", "&&", "||", ";", "&", "\n", "(", ")"):
            return None
        else:
            word = read_word(token)
            if word.value is None:
                return None
            glob = re.compile(fnmatch.translate(glob_text(token))) if word.glob else None
            commands[-1].append(PatternWord(word.value, glob))
    for words in commands:
        if not words:
            return None
        last = words[-1]
        if last.expression is not None and last.text == "*" and len(words) > 1:
            words[-1] = PatternWord(last.text, last.expression, rest=True)
    return ShellPattern(text, tuple(tuple(words) for words in commands))


def glob_text(token: str) -> str:
    """A word of a pattern for fnmatch, with what was quoted made literal."""
    built = []
    position = 0
    while position < len(token):
        piece, shown, position = read_piece(token, position)
        quoted = shown.startswith("\0")
        built.append("".join(f"[{c}]" if quoted and c in "*?[" else c for c in piece or ""))
    return "".join(built)


def covers_words(pattern: tuple[PatternWord, ...], words: tuple[Word, ...]) -> bool:
    """Whether a pattern covers the words of one command; never what the words do not say by themselves."""
    program = words[0].literal if words else None
    if program is None or (len(words) > len(pattern) and not pattern[-1].rest):
        return False
    first = pattern[0]
    if (runs_others(program) or interprets(program)) and first.expression is not None:
        return False
    if not (first.matches(program) or first.matches(base_name(program))):
        return False
    named = pattern[:-1] if pattern[-1].rest else pattern
    if len(words) < len(named):
        return False
    for one, word in zip(named[1:], words[1:], strict=False):
        if word.literal is None or not one.matches(word.literal):
            return False
        if one.expression is not None and executing_flag(program, word):
            return False
    return all(harmless(program, words, index) for index in range(max(len(named), 1), len(words)))


def harmless(program: str, words: tuple[Word, ...], index: int) -> bool:
    """Whether the `*` at the end of a pattern covers this word: it does not change what the program is."""
    word = words[index]
    if word.value is None or (word.glob and not plain_glob(word)):
        return False
    return not executing_flag(program, word) and not program_changes(program, words, index)


def plain_glob(word: Word) -> bool:
    """Whether file names matched by this word can be no options."""
    return word.value is not None and word.value[:1] not in ("-", "*", "?", "[", "")


def program_changes(program: str, words: tuple[Word, ...], index: int) -> bool:
    """Whether this is an option in front of git's subcommand that changes what git is."""
    if last_name(program) != "git":
        return False
    before = all((word.value or "").startswith("-") for word in words[1:index])
    return before and (words[index].value or "").startswith(
        ("-c", "-C", "--config", "--exec", "--git-dir", "--work")
    )


@dataclass(frozen=True, slots=True)
class ShellVerdict:
    """Each part's verdict; `reads` when all of it only reads, `shape` and `entries` as a lasting answer
    would say it."""

    parts: tuple[PartVerdict, ...]
    covered: bool
    reads: bool
    reason: str
    entries: tuple[str, ...] | None


def judge(analysis: Analysis, workspace: Path, patterns: Iterable[ShellPattern]) -> ShellVerdict:
    """Judge each part by what it does and which pattern covers it."""
    rules = tuple(patterns)
    places = places_of(analysis, workspace)
    known_places = places if places is not None else ()
    verdicts: list[PartVerdict] = []
    entries: list[str] | None = []
    reads = True
    refused = "; ".join((*analysis.unknown, *analysis.constructs))
    if places is None:
        refused = refused or "changes directory in ways that are not followed"
    for unit in units_of(analysis):
        text = " | ".join(part.text for part in unit)
        doubts = [read_doubt(part, workspace, known_places) or doubt_of(part) for part in unit]
        doubt = next((one for one in doubts if one), None)
        whole = len(unit) > 1
        if refused:
            verdicts.append(PartVerdict(text, "ask", doubt or refused))
            reads = False
            continue
        if doubt is None and not whole:
            verdicts.append(PartVerdict(text, "allow", "reads only, inside the workspace"))
            continue
        reads = False
        blocked = next((one for part in unit if (one := uncoverable(part, workspace, places or ()))), None)
        rule = None if blocked else next((one for one in rules if one.covers(unit)), None)
        if rule is not None:
            verdicts.append(PartVerdict(text, "allow", f"covered by {rule.text!r}"))
            continue
        verdicts.append(PartVerdict(text, "ask", blocked or doubt or "decides by its input what runs"))
        entry = None if blocked else entry_of(unit)
        entries = None if entries is None or entry is None else [*entries, entry]
    asks = [part for part in verdicts if part.effect == "ask"]
    reason = refused or "; ".join(f"{part.text[:80]}: {part.reason}" for part in asks[:3])
    if refused or len(asks) > 10:
        entries = None
    covered = not refused and not asks and bool(verdicts)
    shape = tuple(dict.fromkeys(entries)) if entries else None
    return ShellVerdict(tuple(verdicts), covered, covered and reads, reason, shape)


def units_of(analysis: Analysis) -> list[tuple[Part, ...]]:
    """The parts one by one, but a pipeline as a whole when its input decides what one of its commands
    runs."""
    units: list[tuple[Part, ...]] = []
    pipelines: dict[int, list[Part]] = {}
    for part in analysis.parts:
        pipelines.setdefault(part.pipeline, []).append(part)
    for parts in pipelines.values():
        joint = any(part.words and obeys_input(part.words) for part in parts[1:])
        units += [tuple(parts)] if joint else [(part,) for part in parts]
    return units


def doubt_of(part: Part) -> str | None:
    """The first doubt the parser had."""
    return part.doubts[0] if part.doubts else None


def uncoverable(part: Part, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why no rule for a program may cover this part as it stands."""
    if part.doubts:
        return part.doubts[0]
    if not part.words:
        return "has no program"
    for word in part.words:
        if word.value is None:
            return f"{word.text} is computed by the shell"
    for name, word in part.assignments:
        value = word.literal
        if not HARMLESS_VARIABLES.fullmatch(name) or value is None or not HARMLESS_VALUE.fullmatch(value):
            return f"sets {name}, which may change what the program does"
    for redirect in part.redirects:
        if redirect.harmless:
            continue
        if redirect.operator != "<":
            return f"redirects ({redirect.text})"
        if doubt := path_doubt(redirect.target, workspace, places):
            return doubt
    return None


def entry_of(unit: tuple[Part, ...]) -> str | None:
    """The pattern a lasting answer writes for this unit: exact words, or a program and subcommand with
    `*`."""
    written = " | ".join(exact(part.words) for part in unit)
    kept = width(unit[0].words) if len(unit) == 1 else None
    candidates = [written] if kept is None else [f"{exact(unit[0].words[:kept])} *", written]
    return next((one for one in candidates if (rule := shell_pattern(one)) and rule.covers(unit)), None)


def exact(words: tuple[Word, ...]) -> str:
    """Words as a pattern that means exactly them."""
    return " ".join(word.text if word.glob else shlex.quote(word.value or "") for word in words)


def places_of(analysis: Analysis, workspace: Path) -> tuple[str, ...] | None:
    """Every directory the line may be in at some time; None when that cannot be told."""
    places = [resolved(str(workspace))]
    for part in analysis.parts:
        if part.program not in ("cd", "pushd", "popd"):
            continue
        target = part.words[1].literal if len(part.words) == 2 else None
        if part.program != "cd" or target is None or target.startswith("-"):
            return None
        for place in list(places):
            there = resolved(os.path.join(place, target))
            if there not in places:
                places.append(there)
        if len(places) > MAX_PLACES:
            return None
    return tuple(places)


def texts_of(analysis: Analysis, depth: int = 0) -> list[str]:
    """Every text a blacklist pattern is held against: each part as its words, without what runs it, and
    what it quotes."""
    texts: list[str] = []
    pipelines: dict[int, list[str]] = {}
    for part in analysis.parts:
        values = [word.value if word.value is not None else word.text for word in part.words]
        if not values:
            continue
        pipelines.setdefault(part.pipeline, []).append(" ".join(values))
        starts = range(len(values)) if runs_others(values[0]) or interprets(values[0]) or depth else (0,)
        for start in starts:
            rest = values[start:]
            texts.append(" ".join(rest))
            texts.append(" ".join([last_name(rest[0]), *rest[1:]]))
        if depth < 3 and (runs_others(values[0]) or interprets(values[0])):
            for inner in (
                *(value for value in values[1:] if " " in value or ";" in value),
                " ".join(values[1:]),
            ):
                texts += texts_of(analyse(inner), depth + 1)
        if last_name(values[0]) == "find" and any(value.startswith(("-exec", "-ok")) for value in values):
            texts += [" ".join(values[start:]) for start in range(1, len(values))]
    return [*texts, *(" | ".join(parts) for parts in pipelines.values() if len(parts) > 1)]
