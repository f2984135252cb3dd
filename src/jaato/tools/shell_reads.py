"""Shell commands that only read: a known program, with known options, on files inside the workspace."""

from __future__ import annotations

from pathlib import Path

from jaato.tools.shell_git import git_doubt
from jaato.tools.shell_parts import Part
from jaato.tools.shell_paths import names_doubt, path_doubt, paths_doubt
from jaato.tools.shell_readers import FIND_PLAIN, FIND_VALUED, READERS, Reader
from jaato.tools.shell_words import Word


def read_doubt(part: Part, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why this part is not a plain read inside the workspace; None when it is one.

    `places` are the directories the line may be in when the part runs.
    """
    if part.assignments:
        return "sets a variable"
    if not part.words:
        return "has no program"
    program = part.program
    if program is None:
        return "computes which program to run"
    for redirect in part.redirects:
        if redirect.harmless:
            continue
        if redirect.operator != "<":
            return f"redirects ({redirect.text})"
        if doubt := path_doubt(redirect.target, workspace, places):
            return doubt
    name = program.removeprefix("/usr/bin/").removeprefix("/bin/")
    match name:
        case "git":
            return git_doubt(part.words[1:], places) or paths_doubt(part.words[1:], workspace, places)
        case "find":
            return find_doubt(part.words[1:], workspace, places)
    known = READERS.get(name)
    if known is None:
        return f"runs {name}, which is not known to read only"
    return options_doubt(name, known, part.words[1:], workspace, places)


def options_doubt(
    name: str, known: Reader, words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]
) -> str | None:
    """Why these arguments may do more than read."""
    rest = list(words)
    positional: list[Word] = []
    patterns_given = False
    while rest:
        word = rest.pop(0)
        text = word.value
        if text is None:
            return f"{word.text} is computed by the shell"
        if text == "--":
            positional += rest
            break
        if text.startswith("--"):
            flag, equals, value = text[2:].partition("=")
            if flag not in known.long or word.glob:
                return f"{name} {text} is not known to read only"
            patterns_given = patterns_given or flag == "regexp"
            if equals and (doubt := path_doubt(Word(word.text, value), workspace, places)):
                return doubt
        elif text.startswith("-") and len(text) > 1:
            if word.glob or (
                bad := next((c for c in flags_of(text, known.valued) if c not in known.short), None)
            ):
                return f"{name} -{bad if not word.glob else text[1:]} is not known to read only"
            flags = flags_of(text, known.valued)
            patterns_given = patterns_given or (known.skip > 0 and "e" in flags[-1:])
            if flags[-1] in known.valued and len(flags) == len(text) - 1 and rest:
                rest.pop(0)
        else:
            positional.append(word)
    return positional_doubt(name, known, positional, 0 if patterns_given else known.skip, workspace, places)


def positional_doubt(
    name: str, known: Reader, words: list[Word], skip: int, workspace: Path, places: tuple[str, ...]
) -> str | None:
    """Why what follows the options may not be read."""
    if known.most is not None and len(words) > known.most:
        return f"{name} has more arguments than a plain read"
    for index, word in enumerate(words):
        if word.value is None:
            return f"{word.text} is computed by the shell"
        if index < skip or known.no_files:
            if known.plain is not None and not known.plain.fullmatch(word.value):
                return f"{name} {word.text} is not known to read only"
            if word.glob and index < skip:
                return f"{word.text} is matched against file names"
            if word.glob and (doubt := names_doubt(word.value, workspace, places)):
                return doubt
        elif known.obeys_files and word.value.startswith("@"):
            return f"{name} takes further arguments from {word.value[1:]}"
        elif doubt := path_doubt(word, workspace, places):
            return doubt
    return None


def flags_of(text: str, valued: str) -> str:
    """The single letters of a group of short options, up to and with the first that takes a value."""
    for index, char in enumerate(text[1:], 1):
        if char in valued:
            return text[1 : index + 1]
    return text[1:]


def find_doubt(words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why this `find` may do more than look."""
    expression = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = word.literal
        if text is None:
            return f"{word.text} is computed by the shell"
        if text in ("(", ")"):
            continue
        if not expression and text in ("-H", "-P"):
            continue
        if text.startswith("-") or text == "!":
            expression = True
            if text in FIND_VALUED:
                if not rest or rest.pop(0).literal is None:
                    return f"find {text} has no plain value"
            elif text not in FIND_PLAIN:
                return f"find {text} is not known to read only"
        elif expression or (doubt := path_doubt(word, workspace, places)):
            return f"find {text} is not understood" if expression else doubt
    return None
