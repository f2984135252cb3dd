"""A shell line held against rules: what each part needs, what covers it, what a lasting answer would cover."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jaato.tools.atomic import resolved
from jaato.tools.shell_git import repository_doubt
from jaato.tools.shell_parts import Analysis, Part
from jaato.tools.shell_paths import path_doubt
from jaato.tools.shell_pattern import ShellPattern, shell_pattern
from jaato.tools.shell_programs import (
    HARMLESS_VALUE,
    HARMLESS_VARIABLES,
    changing,
    last_name,
    obeys_input,
    width,
)
from jaato.tools.shell_reads import read_doubt
from jaato.tools.shell_words import Word
from jaato.tools.verdict import PartVerdict

MAX_PLACES = 8


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
    moved = len(known_places) > 1
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
        rule = None if blocked else next((one for one in rules if one.covers(unit, moved)), None)
        if rule is not None:
            verdicts.append(PartVerdict(text, "allow", f"covered by {rule.text!r}"))
            continue
        change = changed_by(unit, rules)
        verdicts.append(
            PartVerdict(text, "ask", blocked or change or doubt or "decides by its input what runs")
        )
        entry = None if blocked else entry_of(unit, moved)
        entries = None if entries is None or entry is None else [*entries, entry]
    asks = [part for part in verdicts if part.effect == "ask"]
    reason = refused or "; ".join(f"{part.text[:80]}: {part.reason}" for part in asks[:3])
    if len(asks) > 3 and not refused:
        reason += f"; and {len(asks) - 3} more"
    if refused or len(asks) > 10:
        entries = None
    covered = not refused and not asks and bool(verdicts)
    shape = tuple(dict.fromkeys(entries)) if entries else None
    return ShellVerdict(tuple(verdicts), covered, covered and reads, reason, shape)


def changed_by(unit: tuple[Part, ...], rules: tuple[ShellPattern, ...]) -> str | None:
    """Which argument keeps a rule for the program from covering this part; None when no rule is about it."""
    words = unit[0].words
    near = (
        len(unit) == 1
        and bool(words)
        and any(len(one.commands) == 1 and one.about(words[0]) for one in rules)
    )
    word = changing(words) if near else None
    return None if word is None else f"{word.text} makes {words[0].text} run or write something else"


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
    if len(places) > 1 and (doubt := moved_doubt(part.words[0].literal or "", places)):
        return doubt
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


def moved_doubt(program: str, places: tuple[str, ...]) -> str | None:
    """Why a rule does not hold for a program after `cd`: it may be another one there, or obey other orders."""
    if "/" in program and not program.startswith("/"):
        return f"{program} is another program in another directory"
    if last_name(program) == "git":
        return next((found for place in places[1:] if (found := repository_doubt(place))), None)
    return None


def entry_of(unit: tuple[Part, ...], moved: bool) -> str | None:
    """The pattern a lasting answer writes for this unit: exact words, or a program and subcommand with
    `*`."""
    written = " | ".join(exact(part.words) for part in unit)
    if "\n" in written:
        return None  # a shape has one pattern a line, so a word of two lines would become two patterns
    kept = width(unit[0].words) if len(unit) == 1 else None
    candidates = [written] if kept is None else [f"{exact(unit[0].words[:kept])} *", written]
    return next(
        (one for one in candidates if (rule := shell_pattern(one)) and rule.covers(unit, moved)), None
    )


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
