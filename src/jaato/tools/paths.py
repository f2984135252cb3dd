"""The directories a session may use, and every way to reach what lies beneath them."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jaato.errors import ToolError
from jaato.tools import control
from jaato.tools.beneath import MAX_PATH_BYTES, O_PATH, Place, Root, Walk, open_beneath, outside
from jaato.tools.control import in_control_directory, is_linked_control, names_control
from jaato.tools.control_names import STANDARD, ControlNames
from jaato.tools.entries import Entry, entry_kind, special
from jaato.tools.file_errors import FileMissing, PathRefused, absent, explained
from jaato.tools.names import missing

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Roots:
    """The workspace and the directories granted beside it; no path reads or changes anything outside.

    Paths are relative to the workspace, or absolute and beneath a root. Links that stay beneath a root are
    followed, others refused, also when they are made while a call runs. Every method raises `ToolError`s that
    name the path and say what to do. A permitted change of a control file is made inside `control_change`.
    """

    def __init__(
        self,
        workspace: Path,
        granted: Iterable[Path] = (),
        *,
        names: ControlNames = STANDARD,
        control_change: control.ControlChange = control.unwatched,
    ) -> None:
        self._roots = tuple(Root.at(path) for path in (workspace, *granted))
        self.names = names
        self._control_change = control_change

    def move(self, workspace: Path) -> bool:
        """Have another workspace from now on, beside the same granted directories; whether it is another."""
        root = Root.at(workspace)
        moved = root.path != self.workspace
        if moved:
            self._roots = (root, *self._roots[1:])
        return moved

    @property
    def workspace(self) -> Path:
        """The real path of the workspace."""
        return self._roots[0].path

    @property
    def paths(self) -> tuple[Path, ...]:
        """The real paths of all roots, the workspace first."""
        return tuple(root.path for root in self._roots)

    def locate(self, path: str, *, follow: bool = True) -> Place:
        """Where the path really leads, as an open directory and a name; which may be absent. Close it."""
        return Walk(self._roots, path).resolve(self._absolute(path), follow=follow)

    def open_file(self, path: str, *, write: bool = False, create: bool = False) -> BinaryIO:
        """The regular file, opened for bytes; `write` opens it for both, untruncated, `create` makes it.

        Refuses pipes, devices and sockets without opening them, and writing to a file that has several links.
        """
        if not write and not create:
            with self.helpful(path):
                return os.fdopen(self._open_existing(path, os.O_RDONLY), "rb")
        with self.locate(path, follow=not create) as place:
            if create:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                try:
                    return os.fdopen(os.open(place.name, flags, 0o666, dir_fd=place.dir_fd), "w+b")
                except OSError as error:
                    raise explained(error, path) from None
            fd = self.open_place(place, path, os.O_RDWR)
        if os.fstat(fd).st_nlink > 1:
            os.close(fd)
            raise PathRefused(
                f"{path!r} has several hard links, so it is not written in place. Replace it instead."
            )
        return os.fdopen(fd, "r+b")

    def open_place(self, place: Place, path: str, access: int = os.O_RDONLY) -> int:
        """A descriptor of the regular file at a place; `path` is how messages name it."""
        if place.info is None:
            raise absent(path)
        self._regular(place.info, path)
        flags = access | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(place.name, flags, dir_fd=place.dir_fd)
        except OSError as error:
            raise explained(error, path) from None
        try:
            self._regular(os.fstat(fd), path)
        except ToolError:
            os.close(fd)
            raise
        return fd

    def open_dir(self, path: str) -> int:
        """A descriptor of the directory that can be read with `os.scandir`; the caller closes it."""
        with self.helpful(path):
            return self._open_dir(path)

    def stat(self, path: str, *, follow: bool = True) -> os.stat_result:
        """What the file system knows of it; `follow` says whether of a link's target or of the link."""
        with self.helpful(path), self.locate(path, follow=follow) as place:
            if place.info is None:
                raise absent(path)
            return place.info

    def relative(self, path: str) -> tuple[Path, PurePosixPath]:
        """The root the path belongs to and the rest of it, by its names where they suffice.

        A path with `..` is resolved on disk as far as it exists. Raises `PathRefused` for one outside.
        """
        parts = self._absolute(path)
        if ".." in parts:
            with self.locate(path, follow=False) as place:
                return place.root.path, PurePosixPath(*place.parts)
        for root in self._roots:
            rest = root.strip(parts)
            if rest is not None:
                return root.path, PurePosixPath(*rest)
        raise outside(path, self._roots)

    def scan(self, path: str, *, with_info: bool = False) -> Iterator[Entry]:
        """The entries of one directory in no order, links not followed; `with_info` adds an `lstat`."""
        fd = self.open_dir(path)
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    try:
                        info = entry.stat(follow_symlinks=False) if with_info else None
                        yield Entry(entry.name, entry_kind(entry), info)
                    except FileNotFoundError:
                        continue  # gone meanwhile
        except OSError as error:
            raise explained(error, path) from None
        finally:
            os.close(fd)

    def is_control(self, path: str) -> bool:
        """Whether writing there could change what runs, present or absent: by name, a link or a hard link."""
        if self._named_control(path):
            return True
        for follow in (False, True):
            try:
                with self.locate(path, follow=follow) as place:
                    if self.holds_control(place):
                        return True
            except ToolError:
                continue
        return False

    @contextlib.contextmanager
    def changing(self, places: Iterable[Place]) -> Iterator[None]:
        """Change these places in here: a control file among them counts as changed with permission."""
        with contextlib.ExitStack() as changes:
            for place in places:
                if self._true_control(place):
                    changes.enter_context(self._control_change(str(place.path)))
            yield

    def holds_control(self, place: Place) -> bool:
        """Whether a resolved place is a control path, by its true names or as another name of one."""
        named = self._true_control(place)
        return named or (place.info is not None and is_linked_control(place.info, self.paths, self.names))

    def hides_control(self, path: str, place: Place) -> bool:
        """Whether a path leads to a control path by a link, without naming one itself."""
        return self._true_control(place) and not self._named_control(path)

    def _true_control(self, place: Place) -> bool:
        """Whether the true names of a place make it a control path."""
        parts = place.parts if place.root is self._roots[0] else (place.root.path.name, *place.parts)
        return names_control(parts, self.names) or in_control_directory(place.root.path, place.parts)

    def _named_control(self, path: str) -> bool:
        """Whether a path names a control path, before any link is looked at."""
        try:
            parts = self._absolute(path)
        except PathRefused:
            return False
        for root in self._roots:
            rest = root.strip(parts)
            if rest and in_control_directory(root.path, rest):
                return True
            if rest and names_control(
                rest if root is self._roots[0] else [root.path.name, *rest], self.names
            ):
                return True
        return False

    @contextlib.contextmanager
    def helpful(self, path: str) -> Iterator[None]:
        """Whoever finds in here that nothing has the path is told what may be meant."""
        try:
            yield
        except FileMissing:
            raise self._missing(path) from None

    def _missing(self, path: str) -> FileMissing:
        """That nothing has the path: a link that leads nowhere, or a name that is much like others."""
        try:
            with self.locate(path, follow=False) as place:
                if place.info is not None and modes.S_ISLNK(place.info.st_mode):
                    target = os.readlink(place.name, dir_fd=place.dir_fd)
                    return FileMissing(f"{path!r} is a link to {target!r}, which does not exist.")
        except (ToolError, OSError):
            pass
        return missing(path, self._names)

    def _names(self, path: str) -> Iterator[str]:
        """The names in a directory."""
        fd = self._open_dir(path)
        try:
            with os.scandir(fd) as listing:
                yield from (entry.name for entry in listing)
        finally:
            os.close(fd)

    def _open_dir(self, path: str) -> int:
        """A descriptor of the directory."""
        with self.locate(path) as place:
            if place.info is None:
                raise absent(path)
            if not modes.S_ISDIR(place.info.st_mode):
                raise PathRefused(f"{path!r} is a file, not a directory. Name a directory.")
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                return os.open(place.name, flags, dir_fd=place.dir_fd)
            except OSError as error:
                raise explained(error, path) from None

    def _open_existing(self, path: str, access: int) -> int:
        """A descriptor of an existing regular file: by openat2 where it decides, else by the walk."""
        parts = self._absolute(path)
        for root in self._roots:
            rest = root.strip(parts)
            if not rest:
                continue
            root_fd = root.open()
            try:
                handle = open_beneath(root_fd, "/".join(rest), O_PATH)
            except OSError as error:
                raise explained(error, path) from None
            finally:
                os.close(root_fd)
            if handle is None:
                break
            try:
                self._regular(os.fstat(handle), path)
                return os.open(f"/proc/self/fd/{handle}", access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            except FileNotFoundError:
                break  # no /proc here
            except OSError as error:
                raise explained(error, path) from None
            finally:
                os.close(handle)
        with self.locate(path) as place:
            return self.open_place(place, path, access)

    def _regular(self, info: os.stat_result, path: str) -> None:
        """Raise unless it is a regular file."""
        if modes.S_ISDIR(info.st_mode):
            raise PathRefused(f"{path!r} is a directory, not a file; list_directory shows what is in it.")
        if not modes.S_ISREG(info.st_mode):
            raise special(path, info.st_mode)
        if path.endswith("/"):
            raise PathRefused(f"{path!r} ends with a slash and is a file. Leave the slash out.")

    def _absolute(self, path: str) -> list[str]:
        """The path as absolute parts, `..` kept; raises `PathRefused` for what cannot be a path."""
        if not path.strip():
            raise PathRefused("The path is empty. Name a file or directory, relative to the workspace.")
        if "\0" in path:
            raise PathRefused(
                f"{path!r} has a NUL character in it, which no path can have. Correct the path."
            )
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise PathRefused(
                f"{path!r} has characters that cannot be written as UTF-8. Correct the path."
            ) from None
        if size > MAX_PATH_BYTES:
            raise PathRefused(
                f"The path {path[:60]!r}… is {size} bytes long; at most {MAX_PATH_BYTES} are possible."
            )
        if path == "~" or path.startswith("~/"):
            path = str(Path.home()) + path[1:]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        return ["/", *parts] if path.startswith("/") else [*self._roots[0].path.parts, *parts]
