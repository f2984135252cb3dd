"""What a blacklist sees of a shell line: every text that may be a command in it."""

from __future__ import annotations

import re

from jaato.tools.shell_parse import analyse
from jaato.tools.shell_parts import Analysis, Part
from jaato.tools.shell_programs import interprets, last_name, obeys_input, runs_others
from jaato.tools.shell_words import Word

MAX_DEPTH = 3
GIT_VALUED = frozenset("-C -c --git-dir --work-tree --namespace --config-env --super-prefix".split())
QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
MAX_QUOTED = 50
OBEYING = frozenset("source . parallel sem at batch ssh eval socat".split())
"""Programs that are not interpreters themselves, and run what they read."""


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
        wraps = runs_others(values[0]) or interprets(values[0])
        for start in range(len(values)) if wraps or depth else (0,):
            rest = values[start:]
            texts += [" ".join(rest), " ".join([last_name(rest[0]), *rest[1:]])]
            if last_name(rest[0]) == "git":
                texts += git_texts(rest[1:])
        if last_name(values[0]) == "find" and any(value.startswith(("-exec", "-ok")) for value in values):
            texts += [" ".join(values[start:]) for start in range(1, len(values))]
        for inner in inner_texts(values, wraps) if depth < MAX_DEPTH else ():
            texts += texts_of(analyse(inner), depth + 1)
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


def plain_to_see(analysis: Analysis) -> bool:
    """Whether a blacklist sees every command the line runs: none is computed, defined or read as input."""
    if analysis.functions or any(part.words and part.words[0].literal is None for part in analysis.parts):
        return False
    if any(part.program in ("alias", "shopt") for part in analysis.parts):
        return False
    first: dict[int, Part] = {}
    for part in analysis.parts:
        piped = first.setdefault(part.pipeline, part) is not part
        fed = piped or bool(part.doubts) or any(one.operator == "<" for one in part.redirects)
        if fed and runs_input(part.words):
            return False
    return True


def runs_input(words: tuple[Word, ...]) -> bool:
    """Whether this command runs what it reads, itself or by the program it starts."""
    names = [last_name(word.literal or "") for word in words]
    if not names:
        return False
    if names[0] in OBEYING or (len(names) > 1 and runs_others(names[0]) and runs_others(names[-1])):
        return True
    starts = range(len(names)) if runs_others(names[0]) else (0,)
    return any(interprets(names[start]) and obeys_input(words[start:]) for start in starts)
