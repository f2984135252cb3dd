"""Putting a whole file at a path a model names: contained, never by a link into a control path, all or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath
from typing import Literal

from jaato.errors import ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.atomic import put_whole
from jaato.tools.beneath import Place
from jaato.tools.call import Call
from jaato.tools.entries import special
from jaato.tools.file_errors import PathRefused, explained
from jaato.tools.files.told import told_name
from jaato.tools.paths import Roots


class FileTaken(ToolError):
    """Something is at the path already."""

    code = "file_exists"


def publish(roots: Roots, path: str, data: bytes, call: Call, *, overwrite: bool) -> bool:
    """Put a file there, with the missing directories above it; whether another was replaced.

    Durable when this returns. Raises `FileTaken` for what is there unless `overwrite`, `PathRefused` and other
    `ToolError`s; then nothing has changed but perhaps new, empty directories.
    """
    root, rest = roots.relative(path)
    for parent in reversed(PurePosixPath(rest).parents[:-1]):
        make_directory(roots, str(root / parent))
    with roots.locate(path) as place:
        refuse_control(roots, path, place)
        if place.is_root or (place.info is not None and stat.S_ISDIR(place.info.st_mode)):
            raise PathRefused(f"{path!r} is a directory. Name a file in it.")
        if place.info is not None and not stat.S_ISREG(place.info.st_mode):
            raise special(path, place.info.st_mode)
        if place.info is not None and not overwrite:
            raise taken(path)
        new = place.info is None
        mode = 0o666 if place.info is None else stat.S_IMODE(place.info.st_mode)
        try:
            with roots.changing([place]):
                put_whole(place.dir_fd, place.name, data, mode, new=new, exact=not new)
        except FileExistsError:
            raise taken(path) from None
        except OSError as error:
            raise explained(error, path) from None
        change: Literal["created", "modified"] = "created" if new else "modified"
        call.changed.append(FileChange(told_name(roots, place), change))
        return place.info is not None


def taken(path: str) -> FileTaken:
    """That something is there."""
    return FileTaken(f"{path!r} exists already. Give overwrite=true to replace it, or another path.")


def refuse_control(roots: Roots, path: str, place: Place) -> None:
    """Raise for a path that leads by a link to what decides what runs."""
    if roots.hides_control(path, place):
        raise PathRefused(
            f"{path!r} leads by a link to {str(place.path)!r}, which is protected. Name it itself."
        )


def make_directory(roots: Roots, path: str) -> None:
    """Make one directory unless it is there."""
    with roots.locate(path) as place:
        refuse_control(roots, path, place)
        if place.info is not None:
            return
        try:
            os.mkdir(place.name, 0o777, dir_fd=place.dir_fd)
        except FileExistsError:
            return
        except OSError as error:
            raise explained(error, path) from None
