"""The text files below a directory that a glob names, for replacing in many at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jaato.errors import ToolError
from jaato.tools.cancel import CancelToken
from jaato.tools.control import names_control
from jaato.tools.paths import Roots

MAX_VISITED = 100_000
SKIPPED = frozenset({"node_modules", "__pycache__"})


class TooMany(ToolError):
    """The search covers more than one call may."""

    code = "too_many_files"


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a pattern for relative paths: `*` and `?` within a name, `**` across, `{a,b}` and `[ab]`.

    One without a slash matches names at any depth.
    """
    parts: list[str] = [] if "/" in glob else ["(?:.*/)?"]
    depth, place = 0, 0
    while place < len(glob):
        character = glob[place]
        place += 1
        if glob.startswith("**/", place - 1):
            parts.append("(?:.*/)?")
            place += 2
        elif glob.startswith("**", place - 1):
            parts.append(".*")
            place += 1
        elif character == "[" and "]" in glob[place + 1 :]:
            end = glob.index("]", place + 1)
            body = glob[place:end].replace("\\", r"\\").replace("[", r"\[")
            parts.append(f"[{'^' + body[1:] if body[0] in '!^' else body}]")
            place = end + 1
        elif character == "{" and "}" in glob[place:]:
            parts.append("(?:")
            depth += 1
        elif character in "},":
            inside = {"}": ")", ",": "|"}[character]
            parts.append(inside if depth else re.escape(character))
            depth -= character == "}" and depth > 0
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)))
    try:
        return re.compile("".join(parts))
    except re.error as error:
        raise ToolError(
            f"The glob {glob!r} cannot be understood: {error}. Use one such as src/**/*.py."
        ) from None


def files_below(roots: Roots, path: str, glob: str, token: CancelToken) -> Iterator[str]:
    """The regular files below a directory whose relative path fits the glob, in order of their names.

    Hidden directories, links, dependencies and control paths are passed over. Raises `TooMany`.
    """
    fits = glob_pattern(glob)
    waiting = [""]
    visited = 0
    while waiting:
        token.raise_if_cancelled()
        below = waiting.pop()
        directories: list[str] = []
        for entry in sorted(roots.scan(f"{path}/{below}" if below else path)):
            visited += 1
            if visited > MAX_VISITED:
                raise TooMany(
                    f"There are more than {MAX_VISITED} files below {path!r}. Name a smaller directory."
                )
            name = f"{below}/{entry.name}" if below else entry.name
            if names_control(name.split("/")):
                continue
            if entry.kind == "directory" and not entry.name.startswith(".") and entry.name not in SKIPPED:
                directories.append(name)
            elif entry.kind == "file" and fits.fullmatch(name):
                yield f"{path}/{name}"
        waiting += reversed(directories)
