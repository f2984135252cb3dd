"""Which rules cover each command of a shell line, and what a lasting answer would cover."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec

from jaato.protocol.specs import SandboxAccess
from jaato.tools.filesystem.atomic import resolve_path
from jaato.tools.permissions.access import WORKSPACE_WRITE, intersection, union
from jaato.tools.permissions.decision import PartVerdict
from jaato.tools.shell.parser import Analysis, Part
from jaato.tools.shell.patterns import ShellPattern, shell_pattern
from jaato.tools.shell.programs import HARMLESS_VALUE, HARMLESS_VARIABLES, obeys_input, width
from jaato.tools.shell.words import Word

MAX_ENTRIES = 10
INERT = frozenset(("cd", "pwd", "echo", "true", "false", ":", "exit"))
"""Builtins that start no program and change no file, so that no rule is needed for them."""
UNCOVERED = "no rule covers it"
COVERED = "covered by"


class Allowance(msgspec.Struct, frozen=True):
    """A pattern that covers commands, and what the grant it comes from opens beyond the workspace."""

    pattern: ShellPattern
    access: SandboxAccess | None = None


class ShellVerdict(msgspec.Struct, frozen=True):
    """Each part's verdict; whether rules cover all of it, and what those open for every part. `entries` are the patterns
    that would cover all of it, one a line, `missing` those that no rule has yet; None where it can only be answered once."""

    parts: tuple[PartVerdict, ...]
    covered: bool
    reason: str
    entries: str | None
    missing: str | None
    access: SandboxAccess

    @property
    def in_part(self) -> str:
        """Which parts no rule covers, where rules cover others; empty for a line of which they cover all or nothing."""
        some = not self.covered and any(part.reason.startswith(COVERED) for part in self.parts)
        return self.reason if some else ""


def evaluate_parts(analysis: Analysis, workspace: Path, allowances: Iterable[Allowance]) -> ShellVerdict:
    """Judge each part by which pattern covers it."""
    rules = tuple(allowances)
    moved = changes_directory(analysis, workspace)
    verdicts: list[PartVerdict] = []
    entries: list[str | None] = []
    missing: list[str | None] = []
    opened: list[SandboxAccess] = []
    refused = "; ".join((*analysis.unknown, *analysis.constructs))
    for unit in units_of(analysis):
        text = " | ".join(part.text for part in unit)
        blocked = next((one for part in unit if (one := uncoverable(part, moved))), None) or refused
        if blocked:
            verdicts.append(PartVerdict(text, "ask", blocked))
            missing.append(None)
            continue
        if len(unit) == 1 and unit[0].program in INERT:
            verdicts.append(PartVerdict(text, "allow", "starts no program"))
            continue
        entries.append(entry_of(unit, moved))
        covering = [one for one in rules if one.pattern.covers(unit, moved)]
        if covering:
            verdicts.append(PartVerdict(text, "allow", f"{COVERED} {covering[0].pattern.text!r}"))
            opened.append(union(*(one.access or WORKSPACE_WRITE for one in covering)))
        else:
            verdicts.append(PartVerdict(text, "ask", UNCOVERED))
            missing.append(entries[-1])
    asks = [part for part in verdicts if part.effect == "ask"]
    reason = refused or "; ".join(f"{part.text[:80]}: {part.reason}" for part in asks[:3])
    if len(asks) > 3 and not refused:
        reason += f"; and {len(asks) - 3} more"
    lasting = None not in missing
    return ShellVerdict(
        tuple(verdicts),
        covered=bool(opened) and not asks,
        reason=reason or UNCOVERED,
        entries=shape_of(entries) if lasting else None,
        missing=shape_of(missing) if lasting else None,
        access=functools.reduce(intersection, opened) if opened else WORKSPACE_WRITE,
    )


def shape_of(entries: list[str | None]) -> str | None:
    """Patterns as what a lasting answer covers, one a line; None where there are none, or too many."""
    lines = dict.fromkeys(line for line in entries if line is not None)
    return "\n".join(lines) if lines and None not in entries and len(entries) <= MAX_ENTRIES else None


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


def uncoverable(part: Part, moved: bool) -> str | None:
    """Why no rule for a program may cover this part as it stands; `moved` when the line may be in another directory."""
    if part.doubts:
        return part.doubts[0]
    if not part.words:
        return "has no program"
    for word in part.words:
        if word.value is None:
            return f"{word.text} is computed by the shell"
    program = part.words[0].literal or ""
    if moved and "/" in program and not program.startswith("/"):
        return f"{program} is another program in another directory"
    for name, word in part.assignments:
        value = word.literal
        if not HARMLESS_VARIABLES.fullmatch(name) or value is None or not HARMLESS_VALUE.fullmatch(value):
            return f"sets {name}, which may change what the program does"
    for redirect in part.redirects:
        if not redirect.harmless and (redirect.operator != "<" or redirect.target.literal is None):
            return f"redirects ({redirect.text})"
    return None


def entry_of(unit: tuple[Part, ...], moved: bool) -> str | None:
    """The pattern a lasting answer writes for this unit: exact words, or a program and subcommand with
    `*`."""
    written = " | ".join(exact_pattern(part.words) for part in unit)
    if "\n" in written:
        return None  # a shape has one pattern a line, so a word of two lines would become two patterns
    kept = width(unit[0].words) if len(unit) == 1 else None
    candidates = [written] if kept is None else [f"{exact_pattern(unit[0].words[:kept])} *", written]
    return next(
        (one for one in candidates if (rule := shell_pattern(one)) and rule.covers(unit, moved)), None
    )


def exact_pattern(words: tuple[Word, ...]) -> str:
    """Words as a pattern that means exactly them."""
    return " ".join(word.text if word.glob else shlex.quote(word.value or "") for word in words)


def changes_directory(analysis: Analysis, workspace: Path) -> bool:
    """Whether some part of the line may run in another directory than the workspace."""
    root = resolve_path(str(workspace))
    for part in analysis.parts:
        if part.program in ("pushd", "popd"):
            return True
        if part.program != "cd":
            continue
        target = part.words[1].literal if len(part.words) == 2 else None
        if target is None or target.startswith("-") or resolve_path(os.path.join(root, target)) != root:
            return True
    return False
