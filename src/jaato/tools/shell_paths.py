"""The paths a shell command reads: why one may lead out of the workspace, or to what is no file."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from jaato.tools.atomic import resolved
from jaato.tools.shell_words import Word

MAX_MATCHES = 2_000


def paths_doubt(words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why one of these words may lead out of the workspace."""
    for word in words:
        if word.value is None:
            return f"{word.text} is computed by the shell"
        value = word.value.partition("=")[2] if word.value.startswith("--") else word.value
        if doubt := path_doubt(Word(word.text, value, word.glob), workspace, places):
            return doubt
    return None


def path_doubt(word: Word, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why a path may lead out of the workspace or to something that is no file or directory."""
    value = word.value
    if value is None:
        return f"{word.text} is computed by the shell"
    root = resolved(str(workspace))
    for place in places:
        if word.glob:
            if doubt := glob_doubt(value, root, place):
                return doubt
        elif doubt := single_doubt(os.path.join(place, value), root):
            return doubt
    return None


def names_doubt(pattern: str, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why the names that a pattern is replaced by may be those of files outside."""
    directory = pattern.rpartition("/")[0]
    if re.search(r"[*?\[]", directory):
        return f"{pattern} matches directories"
    root = resolved(str(workspace))
    bases = (os.path.join(place, directory or ("/" if pattern.startswith("/") else "")) for place in places)
    return next((doubt for base in bases if (doubt := single_doubt(base, root))), None)


def glob_doubt(value: str, root: str, place: str) -> str | None:
    """Why a pattern of file names may match something outside, or something that looks like an option."""
    directory, _, pattern = value.rpartition("/")
    if re.search(r"[*?\[]", directory):
        return f"{value} matches directories"
    starts_wild = not directory and not value.startswith("/") and pattern[:1] in ("*", "?", "[")
    option_like = starts_wild or value.startswith("-")
    base = os.path.join(place, directory)
    if doubt := single_doubt(base, root):
        return doubt
    try:
        with os.scandir(base) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_MATCHES:
                    return f"{value} matches against too many files"
                if option_like and entry.name.startswith("-"):
                    return f"{value} may match {entry.name}, which looks like an option"
                if entry.is_symlink() and (doubt := single_doubt(entry.path, root)):
                    return doubt
                if not (entry.is_dir() or entry.is_file()):
                    return f"{value} may match {entry.name}, which is neither a file nor a directory"
    except OSError:
        return None
    return None


def single_doubt(path: str, root: str) -> str | None:
    """Why one path, links followed, may not be read without asking."""
    if "\0" in path:
        return "a path contains NUL"
    real = resolved(path)
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        return f"{path} is outside the workspace"
    try:
        mode = os.stat(real).st_mode
    except (OSError, ValueError):
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return f"{path} is neither a file nor a directory"
    return None
