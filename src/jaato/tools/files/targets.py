"""What is to be changed: a place by its true name, what was seen there, and what shall stand there."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from jaato.errors import ToolError
from jaato.tools.beneath import Place
from jaato.tools.entries import special
from jaato.tools.file_errors import FileMissing, PathRefused, absent, explained
from jaato.tools.files.records import Record
from jaato.tools.files.replace import Seen
from jaato.tools.files.text import Form, form_of
from jaato.tools.paths import Roots

MAX_EDIT_BYTES = 64 << 20


class TooLarge(ToolError):
    """The file is larger than can be edited in memory."""

    code = "file_too_large"


@dataclass(frozen=True, slots=True)
class Target:
    """A place to change: how the caller named it, and its true name (relative in the workspace)."""

    path: str
    place: Place
    label: str

    @property
    def info(self) -> os.stat_result:
        """What is there. Raises `FileMissing` when nothing is."""
        if self.place.info is None:
            raise absent(self.path)
        return self.place.info


@dataclass(frozen=True, slots=True)
class Loaded:
    """A text file as it was read, ready to be edited."""

    target: Target
    seen: Seen
    form: Form
    text: str


@dataclass(slots=True)
class Change:
    """One step: `content` (bytes, or an open file to copy) in place of what was `seen`; None removes it."""

    target: Target
    action: str
    seen: Seen | None
    content: bytes | int | None
    mode: int | None = None
    link: str | None = None
    record: Record | None = None
    made: Sequence[str] = ()
    """The directories that were made for it."""
    notes: list[str] = field(default_factory=list)
    published: Seen | None = None
    done: bool = False


class Targets:
    """Looking at files beneath some roots before they are changed. Raises `ToolError`s."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    @contextlib.contextmanager
    def target(self, path: str, *, follow: bool = True) -> Iterator[Target]:
        """Where a path leads, for a change. Refuses a root, and a control path that hides behind a link."""
        with self.roots.locate(path, follow=follow) as place:
            if place.is_root:
                raise PathRefused(f"{path!r} is a root directory itself; name something in it.")
            if self.roots.hides_control(path, place):
                raise PathRefused(
                    f"{path!r} leads by a link to {self.label(place)!r}, which is protected. Name it itself."
                )
            yield Target(path, place, self.label(place))

    def label(self, place: Place) -> str:
        """The true name of a place: relative in the workspace, else absolute."""
        inside = place.root.path == self.roots.workspace
        return str(PurePosixPath(*place.parts)) if inside else str(place.path)

    def load(self, target: Target) -> Loaded:
        """Read a text file to edit it. Raises `TooLarge` and `NotText` too."""
        seen = self.see(target)
        if seen is None or seen.data is None:
            raise TooLarge(
                f"{target.path!r} has {target.info.st_size} bytes; at most {MAX_EDIT_BYTES} can be edited."
            )
        form = form_of(seen.data)
        return Loaded(target, seen, form, form.decode(seen.data))

    def see(self, target: Target) -> Seen | None:
        """What is at a target now, read if it is a file of bearable size; None when nothing is."""
        info = target.place.info
        if info is None:
            return None
        if stat.S_ISLNK(info.st_mode):
            try:
                return Seen(info, link=os.readlink(target.place.name, dir_fd=target.place.dir_fd))
            except OSError as error:
                raise explained(error, target.path) from None
        if stat.S_ISDIR(info.st_mode):
            raise PathRefused(
                f"{target.path!r} is a directory, not a file; list_directory shows what is in it."
            )
        if not stat.S_ISREG(info.st_mode):
            raise special(target.path, info.st_mode)
        with os.fdopen(self.roots.open_place(target.place, target.path), "rb", buffering=0) as file:
            info = os.fstat(file.fileno())
            if info.st_size > MAX_EDIT_BYTES:
                return Seen(info)
            try:
                return Seen(info, file.readall())
            except OSError as error:
                raise explained(error, target.path) from None

    def is_absent(self, path: str) -> bool:
        """Whether nothing has this path, its directory perhaps not either."""
        try:
            with self.roots.locate(path) as place:
                return place.info is None
        except FileMissing:
            return True

    def make_parents(self, path: str) -> list[str]:
        """Make the missing directories above a path; returns those made, outermost first."""
        made: list[str] = []
        root, rest = self.roots.relative(path)
        for parent in reversed(PurePosixPath(rest).parents[:-1]):
            step = str(root / parent)
            with self.target(step) as target:
                if target.place.info is None:
                    try:
                        with self.roots.changing([target.place]):
                            os.mkdir(target.place.name, 0o777, dir_fd=target.place.dir_fd)
                    except FileExistsError:
                        continue
                    except OSError as error:
                        raise explained(error, step) from None
                    made.append(target.label)
                elif not stat.S_ISDIR(target.place.info.st_mode):
                    raise PathRefused(f"{target.label!r} is not a directory, so nothing can be made in it.")
        return made

    def unmake(self, made: Sequence[str]) -> None:
        """Remove directories that were made for something that then failed, while they are empty."""
        for label in reversed(made):
            with contextlib.suppress(ToolError, OSError), self.target(label) as target:
                os.rmdir(target.place.name, dir_fd=target.place.dir_fd)
