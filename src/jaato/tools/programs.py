"""Finding the programs that jaato starts itself, never where a session may write."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def find_program(name: str, path: Iterable[str], refused: Sequence[Path] = ()) -> str | None:
    """The first program of this name in absolute directories; None where there is none outside the refused places.

    A program counts as inside a place by its own name, and by where a link leads: both could be changed.
    """
    real = [place.resolve() for place in refused]
    for directory in path:
        found = shutil.which(name, path=directory) if os.path.isabs(directory) else None
        if found is not None and not is_inside(Path(found), real):
            return found
    return None


def is_inside(program: Path, places: Iterable[Path]) -> bool:
    """Whether a program lies in one of these real places, by its own name or where a link leads.

    The environment that jaato itself runs from counts as outside, since no command may change it; the root directory
    is no place, since every program lies there.
    """
    both = (program.parent.resolve() / program.name, program.resolve())
    if both[0].is_relative_to(own_environment()):
        return False
    return any(one.is_relative_to(place) for one in both for place in places if place != place.parent)


def own_environment() -> Path:
    """The real directory of the environment that jaato runs from."""
    return Path(sys.prefix).resolve()


def directories_of(path: str | None) -> list[str]:
    """The directories of a `PATH`."""
    return (path or os.defpath).split(os.pathsep)
