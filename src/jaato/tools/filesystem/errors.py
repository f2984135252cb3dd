"""What kinds of entries a directory has, and what a file operation is refused with."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from jaato.errors import ToolError


class PathRefused(ToolError):
    """The path leads outside, or to something that is no file or directory."""

    code = "path_refused"


class FileMissing(ToolError):
    """Nothing has this path."""

    code = "file_not_found"


class FileFailed(ToolError):
    """The file system refused the operation; nothing was changed."""

    code = "file_failed"


class RollbackFailed(FileFailed):
    """A change of several files failed, and not all of them could be put back; the message has which, and why."""

    def __init__(self, error: object, stuck: Iterable[str]) -> None:
        super().__init__(f"{error} Besides, not everything could be put back: {'; '.join(stuck)}.")


EXPLANATIONS = {
    errno.EACCES: "{path!r}: permission denied. See its mode and owner with get_file_info.",
    errno.EPERM: "{path!r}: the file system does not permit this (immutable, or owned by someone else).",
    errno.ENOSPC: "{path!r}: the disk is full; nothing was changed. Free some space and try again.",
    errno.EDQUOT: "{path!r}: the disk quota is used up; nothing was changed. Free some space and try again.",
    errno.EROFS: "{path!r} is on a read-only file system; nothing was changed.",
    errno.EISDIR: "{path!r} is a directory; name a file in it (list_directory shows them).",
    errno.ENOTDIR: "{path!r}: a part of the path is a file, not a directory.",
    errno.ENOTEMPTY: "{path!r} is a directory that is not empty.",
    errno.EEXIST: "{path!r} exists already.",
    errno.ELOOP: "{path!r} has too many symbolic links, or a magic link, in it.",
    errno.ENAMETOOLONG: "{path!r} is too long for a path or has a name over 255 bytes.",
    errno.EMFILE: "{path!r}: too many open files. Try again, with fewer calls at once.",
}


def file_missing(path: str) -> FileMissing:
    """The error for a path that does not exist."""
    return FileMissing(f"{path!r} does not exist. Look for it with list_directory or glob_files.")


def explain_os_error(error: OSError, path: str) -> ToolError:
    """The file system's refusal in words that say what to do."""
    if error.errno == errno.ENOENT:
        return file_missing(path)
    text = EXPLANATIONS.get(error.errno or 0, "{path!r}: {reason}.")
    path = path if len(path) <= 200 else f"{path[:200]}…"
    return FileFailed(text.format(path=path, reason=error.strerror or "input/output error"))


@contextlib.contextmanager
def explaining(path: str) -> Iterator[None]:
    """Raise the file system's refusal in such words, for an `OSError` of the block."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, path) from None


Kind = Literal["file", "directory", "link", "other"]


class Entry(NamedTuple):
    """One name in a directory, and what it is itself, links not followed."""

    name: str
    kind: Kind


def kind_of(mode: int) -> Kind:
    """The kind of a file by its mode."""
    if modes.S_ISREG(mode):
        return "file"
    if modes.S_ISDIR(mode):
        return "directory"
    return "link" if modes.S_ISLNK(mode) else "other"


def refuse_special_file(path: str, mode: int) -> PathRefused:
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
    """The kind of a directory entry, links not followed."""
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "directory" if entry.is_dir(follow_symlinks=False) else "other"
