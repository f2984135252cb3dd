"""The text files below a directory that a glob names, for replacing in many at once."""

from __future__ import annotations

from collections.abc import Iterator

from jaato.errors import ToolError
from jaato.plugins.search.globs import Glob
from jaato.tools.cancel import CancelToken
from jaato.tools.control import names_control
from jaato.tools.paths import Roots

MAX_VISITED = 100_000
SKIPPED = frozenset({"node_modules", "__pycache__"})


class TooMany(ToolError):
    """The search covers more than one call may."""

    code = "too_many_files"


def files_below(roots: Roots, path: str, glob: str, token: CancelToken) -> Iterator[str]:
    """The regular files below a directory whose relative path fits the glob, in order of their names; a glob without a
    slash matches names at any depth.

    Hidden directories, links, dependencies and control paths are passed over. Raises `InvalidArguments` for what is no glob, and `TooMany`.
    """
    fits = Glob.of(glob, anywhere=True).fits
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
            if names_control(name.split("/"), roots.names):
                continue
            if entry.kind == "directory" and not entry.name.startswith(".") and entry.name not in SKIPPED:
                directories.append(name)
            elif entry.kind == "file" and fits(name.split("/")):
                yield f"{path}/{name}"
        waiting += reversed(directories)
