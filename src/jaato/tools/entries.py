"""What can stand under a name: a file, a directory, a link, or what is never opened."""

from __future__ import annotations

import os
import stat as modes
from typing import Literal, NamedTuple

from jaato.tools.file_errors import PathRefused

Kind = Literal["file", "directory", "link", "other"]


class Entry(NamedTuple):
    """One name in a directory; `info` (of the entry itself, links not followed) only when asked for."""

    name: str
    kind: Kind
    info: os.stat_result | None = None


def kind_of(mode: int) -> Kind:
    """What a mode says a thing is."""
    if modes.S_ISREG(mode):
        return "file"
    if modes.S_ISDIR(mode):
        return "directory"
    return "link" if modes.S_ISLNK(mode) else "other"


def special(path: str, mode: int) -> PathRefused:
    """The refusal of what is neither file nor directory."""
    for test, name in (
        (modes.S_ISFIFO, "a named pipe"),
        (modes.S_ISSOCK, "a socket"),
        (modes.S_ISCHR, "a character device"),
        (modes.S_ISBLK, "a block device"),
        (modes.S_ISLNK, "a symbolic link"),
    ):
        if test(mode):
            return PathRefused(f"{path!r} is {name}, which the file tools do not open. Name a regular file.")
    return PathRefused(f"{path!r} is not a regular file. Name a regular file.")


def entry_kind(entry: os.DirEntry[str]) -> Kind:
    """What a directory entry is, links not followed."""
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "directory" if entry.is_dir(follow_symlinks=False) else "other"
