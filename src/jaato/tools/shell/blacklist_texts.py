"""Every text in a shell line that may be a command, for matching against a blacklist."""

from __future__ import annotations

import re

from jaato.tools.shell.parser import parse_command
from jaato.tools.shell.programs import interprets, last_name, runs_others
from jaato.tools.shell.syntax import Analysis

MAX_DEPTH = 3
GIT_VALUED = frozenset("-C -c --git-dir --work-tree --namespace --config-env --super-prefix".split())
QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
MAX_QUOTED = 50
STARTING = frozenset(("run", "exec", "--", "x", "-x"))
"""Arguments behind which many programs take a command."""


def blacklist_texts(analysis: Analysis, depth: int = 0) -> list[str]:
    """Every text a blacklist pattern is held against: each part as its words, without what runs it, and
    what it quotes."""
    texts: list[str] = []
    pipelines: dict[int, list[str]] = {}
    for part in analysis.parts:
        values = [word.value if word.value is not None else word.text for word in part.words]
        if not values:
            continue
        pipelines.setdefault(part.pipeline, []).append(" ".join(values))
        wraps = runs_others(values[0]) or interprets(values[0])
        for start in range(len(values)) if wraps or depth else (0,):
            rest = values[start:]
            texts += [" ".join(rest), " ".join([last_name(rest[0]), *rest[1:]])]
            if last_name(rest[0]) == "git":
                texts += git_texts(rest[1:])
        if last_name(values[0]) == "find" and any(value.startswith(("-exec", "-ok")) for value in values):
            texts += [" ".join(values[start:]) for start in range(1, len(values))]
        for inner in inner_texts(values, wraps) if depth < MAX_DEPTH else ():
            texts += blacklist_texts(parse_command(inner), depth + 1)
    return [*texts, *(" | ".join(parts) for parts in pipelines.values() if len(parts) > 1)]


def git_texts(values: list[str]) -> list[str]:
    """A git command without the options in front of its subcommand, and what it runs for each step."""
    index = 0
    while index < len(values) and values[index].startswith("-"):
        index += 2 if values[index] in GIT_VALUED else 1
    texts = [" ".join(["git", *values[index:]])]
    if values[index : index + 2] in (["bisect", "run"], ["submodule", "foreach"]):
        texts += [" ".join(values[start:]) for start in range(index + 2, len(values))]
    return texts


def inner_texts(values: list[str], wraps: bool) -> list[str]:
    """What a program that runs others may be given as a whole line: an argument, what is glued to an option or a
    name, what its code quotes."""
    if not wraps:
        return []
    given = values[1:]
    glued = [value[2:] for value in given if value[:1] == "-" and value[1:2] != "-"]
    glued += [value.partition("=")[2] for value in given]
    quoted = [text for value in given for pair in QUOTED.findall(value) for text in pair]
    lines = [value for value in (*given, *glued, *quoted[:MAX_QUOTED]) if " " in value or ";" in value]
    return [*dict.fromkeys(lines), " ".join(given)]


def quoted_texts(analysis: Analysis) -> list[str]:
    """Texts inside arguments and assignments that some program may take as a command: for those of which nothing is known."""
    texts: list[str] = []
    for part in analysis.parts:
        values = [word.value for word in part.words[1:]] + [word.value for _name, word in part.assignments]
        for value in values:
            if value is None:
                continue
            pieces = {value, value.rpartition("=")[2], value.lstrip("-+!|:"), *re.split(r"[!|;:]", value)}
            pieces |= {value[2:]} if value[:1] == "-" and value[1:2] != "-" else set()
            pieces |= {text for pair in QUOTED.findall(value)[:MAX_QUOTED] for text in pair}
            for piece in pieces:
                if " " in piece.strip():
                    texts += blacklist_texts(parse_command(piece.strip().strip("\"'")))
        texts += [
            " ".join(value or "" for value in values[at + 1 :])
            for at, value in enumerate(values)
            if value in STARTING and at + 1 < len(values)
        ]
    return texts
