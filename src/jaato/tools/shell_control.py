"""Shell commands that may change a control path."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jaato.tools.control import NAMES, control_path, holds_workspace
from jaato.tools.shell_expand import UNKNOWN, forms_of
from jaato.tools.shell_parse import CONTINUATION, analyse
from jaato.tools.shell_parts import Analysis, Part
from jaato.tools.shell_policy import places_of
from jaato.tools.shell_programs import last_name, runs_others
from jaato.tools.shell_readers import READERS
from jaato.tools.shell_reads import read_doubt
from jaato.tools.shell_texts import inner_texts
from jaato.tools.shell_words import Word
from jaato.tools.touches import MENTION, WRITING_GIT

SWEEPING = frozenset(("rm", "shred", "chmod", "chown", "chgrp", "rsync", "mount", "setfacl"))
"""Programs that, given a directory, change what is in it."""

PLACING = frozenset(("cp", "mv", "install", "ln"))
"""Programs that, given a directory at the end, put what stands before into it."""

SAYING = frozenset(("echo", "printf"))
SHELL = re.compile(r"(?:ba|da|z|k|a|mk)?sh|fish")
IN_GIT = ("config", "hooks", "HEAD", "pre-commit", "permissions.json")
MAX_DEPTH = 3
MAX_TAILS = 20


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a line runs: the workspace, the directories it may be in, what is protected, what it has set."""

    root: str
    places: tuple[str, ...]
    protected: tuple[Path, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def touched(self, text: str) -> str | None:
        """Which control path a text means in one of the directories."""
        pieces = {text, text.rpartition("=")[2]}
        return next(
            (
                found
                for piece in pieces
                for place in self.places
                if (found := control_path(piece, place, self.protected, self.root, hidden=False)) is not None
            ),
            None,
        )

    def holds(self, text: str) -> bool:
        """Whether a text means the workspace, or a directory above it."""
        return any(holds_workspace(text, place, self.root) for place in self.places)


def control_doubt(
    analysis: Analysis, workspace: Path, protected: tuple[Path, ...], depth: int = 0
) -> str | None:
    """Which control path a command may change; None when no part that does more than read names one.

    What a program does inside is not seen here: a script that writes to `.git/hooks` without naming it in the
    command is the sandbox's business.
    """
    places = places_of(analysis, workspace) or (str(workspace),)
    ground = Ground(str(workspace), places, protected, variables_of(analysis, workspace))
    for part in analysis.parts:
        doubt = part_doubt(part, workspace, ground)
        if doubt is None and depth < MAX_DEPTH:
            lines = wrapped(part, ground)
            found = (control_doubt(analyse(line), workspace, protected, depth + 1) for line in lines)
            doubt = next((one for one in found if one is not None), None)
        if doubt is not None:
            return doubt
    if not analysis.parts or analysis.unknown or analysis.constructs or analysis.heredocs:
        mention = MENTION.search(analysis.command.replace(CONTINUATION, ""))
        return mention[0] if mention else None
    return None


COMPLETED = re.compile(r"\S[^\n]*\t")
"""A tab that is no indentation: a shell completes the word before it."""


def control_typed(analysis: Analysis, workspace: Path, protected: tuple[Path, ...]) -> str | None:
    """Which control path a text may name that is typed into some program, be it a shell or not."""
    if completed := COMPLETED.search(analysis.command):
        return completed[0][-80:]
    if mention := MENTION.search(analysis.command):
        return mention[0]
    return control_doubt(analysis, workspace, protected)


def variables_of(analysis: Analysis, workspace: Path) -> dict[str, str]:
    """What the line sets to a text that is plain to see, once; and the two that are always set."""
    found = {"PWD": str(workspace), "HOME": os.path.expanduser("~")}
    for part in analysis.parts:
        declared = (
            [word.literal.partition("=") for word in part.words[1:] if word.literal] if part.words else []
        )
        pairs = [(name, word.literal) for name, word in part.assignments]
        if part.program in ("export", "declare", "local", "typeset", "readonly"):
            pairs += [(name, value) for name, equals, value in declared if equals]
        for name, value in pairs:
            found[name] = UNKNOWN if value is None or found.get(name, value) != value else value
    return found


def texts(word: Word, ground: Ground) -> list[str]:
    """What a word says, or what it may become when bash computes it."""
    if word.value is not None:
        return [word.value]
    return [word.text, *(form for form in forms_of(word.text, ground.variables) if form != UNKNOWN)]


def wrapped(part: Part, ground: Ground) -> Iterator[str]:
    """The lines that a shell or a program that runs others gets in its arguments."""
    values = [text for word in part.words for text in texts(word, ground)[-1:]]
    program = last_name(values[0]) if values else ""
    if runs_others(program):
        yield from (" ".join(values[start:]) for start in range(1, min(len(values), MAX_TAILS)))
    if runs_others(program) or SHELL.fullmatch(program):
        yield from inner_texts(values, wraps=True)


def part_doubt(part: Part, workspace: Path, ground: Ground) -> str | None:
    """Which control path one part may change."""
    values = [text for word in part.words for text in texts(word, ground)]
    program = last_name(values[0]) if values else ""
    if program == "git" and (order := WRITING_GIT.search(" ".join(values[1:]))):
        return f"git {order[0]}"
    if not part.doubts and read_doubt(part, workspace, ground.places) is None:
        return None
    targets = [redirect.target for redirect in part.redirects if redirect.writes]
    written = [text for word in targets for text in texts(word, ground)]
    computed = next((word.text for word in targets if word.value is None and word.text != "/dev/null"), None)
    set_to = [text for _name, word in part.assignments for text in texts(word, ground)]
    if program not in (*SAYING, "grep", "rg"):
        mentions = (MENTION.search(text) for text in (*values[1:], *written, *set_to))
        if mention := next((one for one in mentions if one), None):
            return mention[0]
    named = written if program in SAYING else [*values, *written]
    touched = next((found for text in named if (found := ground.touched(text)) is not None), None)
    return touched or sweep_doubt(program, values[1:], ground) or computed


def sweep_doubt(program: str, values: list[str], ground: Ground) -> str | None:
    """Which argument makes a program change a whole directory with control paths in it."""
    plain = [value for value in values if not value.startswith("-")]
    if program in SWEEPING or (program in ("cp", "mv") and any(value.endswith("/.") for value in plain)):
        held = (value for value in plain if ground.holds(re.sub(r"(^|/)\*$", r"\1.", value)))
        return next(held, None)
    if program in PLACING:
        return placed_doubt(program, values, plain, ground)
    return find_sweeps(values, ground) if program == "find" else None


def placed_doubt(program: str, values: list[str], plain: list[str], ground: Ground) -> str | None:
    """Which source is moved away with control paths in it, or lands on the workspace or a control path."""
    target, sources = placement(values, plain)
    for source in sources:
        if program == "mv" and ground.holds(source):
            return source
        there = os.path.join(target, os.path.basename(os.path.normpath(source)))
        if ground.holds(there) or ground.touched(there) is not None:
            return there
    over = any(re.fullmatch(r"-\w*T\w*|--no-target-directory", value) for value in values)
    return target if over and ground.holds(target) else None


def placement(values: list[str], plain: list[str]) -> tuple[str, list[str]]:
    """Where a program that copies or moves puts things, and what; the last argument unless an option says so."""
    for index, value in enumerate(values):
        name, equals, given = value.partition("=")
        if name == "--target-directory" and equals:
            return given, plain
        if re.fullmatch(r"-\w*t|--target-directory", value) and index + 1 < len(values):
            return values[index + 1], [one for one in plain if one != values[index + 1]]
    return (plain[-1], plain[:-1]) if plain else (".", [])


def find_sweeps(values: list[str], ground: Ground) -> str | None:
    """Which directory a `find` that does something with what it finds goes through, control paths included."""
    first = next((index for index, value in enumerate(values) if value[:1] in ("-", "(", "!")), len(values))
    acts = [
        index for index, value in enumerate(values) if value in ("-delete", "-fprint", "-fprintf", "-fls")
    ]
    for index, value in enumerate(values[:-1]):
        if re.fullmatch(r"-(?:exec|ok)(?:dir)?", value) and last_name(values[index + 1]) not in READERS:
            acts.append(index)
    start = next((value for value in values[:first] or ["."] if ground.holds(value)), None)
    return start if acts and not filtered(values) else None


def filtered(values: list[str]) -> bool:
    """Whether the names that a `find` looks for are none of control paths."""
    if {"-o", "-or", ","} & set(values):
        return False
    for index, value in enumerate(values[:-1]):
        if value in ("-name", "-iname") and (index == 0 or values[index - 1] not in ("!", "-not")):
            return not any(fnmatch.fnmatch(name, values[index + 1]) for name in (*NAMES, *IN_GIT))
    return False
