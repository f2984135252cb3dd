"""Shell commands that may change a control path."""

from __future__ import annotations

from pathlib import Path

from jaato.tools.control import control_path, holds_workspace
from jaato.tools.shell_parse import CONTINUATION
from jaato.tools.shell_parts import Analysis, Part
from jaato.tools.shell_policy import places_of
from jaato.tools.shell_programs import last_name
from jaato.tools.shell_reads import read_doubt
from jaato.tools.touches import MENTION, WRITING_GIT

SWEEPING = frozenset(("rm", "shred", "chmod", "chown", "chgrp", "rsync", "mount", "setfacl"))
"""Programs that, given a directory, change what is in it."""


def control_doubt(analysis: Analysis, workspace: Path, protected: tuple[Path, ...]) -> str | None:
    """Which control path a command may change; None when no part that does more than read names one.

    What a program does inside is not seen here: a script that writes to `.git/hooks` without naming it in the
    command is the sandbox's business.
    """
    places = places_of(analysis, workspace) or (str(workspace),)
    if not analysis.parts:
        found = MENTION.search(analysis.command.replace(CONTINUATION, ""))
        return found[0] if found else None
    for part in analysis.parts:
        doubt = part_doubt(part, workspace, places, protected)
        if doubt is not None:
            return doubt
    if analysis.unknown or analysis.constructs or analysis.heredocs:
        found = MENTION.search(analysis.command.replace(CONTINUATION, ""))
        return found[0] if found else None
    return None


def part_doubt(
    part: Part, workspace: Path, places: tuple[str, ...], protected: tuple[Path, ...]
) -> str | None:
    """Which control path one part may change."""
    values = [word.value if word.value is not None else word.text for word in part.words]
    program = last_name(values[0]) if values else ""
    if program == "git" and (found := WRITING_GIT.search(" ".join(values[1:]))):
        return f"git {found[0]}"
    if not part.doubts and read_doubt(part, workspace, places) is None:
        return None
    targets = [redirect.target for redirect in part.redirects if redirect.writes]
    for text in (
        *values[1:],
        *(word.text for word in targets),
        *(word.text for _name, word in part.assignments),
    ):
        if program not in ("echo", "printf", "grep", "rg") and (mention := MENTION.search(text)):
            return mention[0]
    words = [] if program in ("echo", "printf") else list(values)
    words += [word.value if word.value is not None else word.text for word in targets]
    for piece in (piece for text in words for piece in {text, text.rpartition("=")[2]}):
        for place in places:
            if (touched := control_path(piece, place, protected, str(workspace), hidden=False)) is not None:
                return touched
    if program in SWEEPING or (program in ("cp", "mv") and any(text.endswith("/.") for text in values)):
        for text in values[1:]:
            if any(
                holds_workspace(text, place, str(workspace)) for place in places if not text.startswith("-")
            ):
                return text
    for word in targets:
        if word.value is None and word.text != "/dev/null":
            return word.text
    return None
