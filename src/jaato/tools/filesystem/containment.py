"""Containment: the directories a session may use, every way to reach what lies below them, and how names are shown."""

from __future__ import annotations

import contextlib
import os
import stat as modes
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from jaato.errors import ToolError
from jaato.tools.filesystem import control_files
from jaato.tools.filesystem.control_files import (
    STANDARD,
    ControlNames,
    in_control_directory,
    is_linked_control,
    names_control,
)
from jaato.tools.filesystem.errors import (
    Entry,
    FileMissing,
    PathRefused,
    entry_kind,
    explain_os_error,
    explaining,
    file_missing,
    refuse_special_file,
)
from jaato.tools.filesystem.safe_open import (
    MAX_PATH_BYTES,
    O_PATH,
    PathResolver,
    ResolvedPath,
    Root,
    open_beneath,
    outside,
)

MAX_NAMES = 2000
MAX_SUGGESTED = 3
MAX_LEVELS = 20


def display_name(name: str) -> str:
    """A name or path on one line: line ends, escape sequences, odd bytes and text direction marks spelt out."""
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else escape_character(letter) for letter in name)


def escape_character(letter: str) -> str:
    """A character as an escape sequence, a byte that is no character as `\\xHH`."""
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def explain_missing(path: str, names_in: Callable[[str], Iterable[str]]) -> FileMissing:
    """The error for a path that does not exist, with similar paths; `names_in` lists a directory."""
    head = f"{path!r} does not exist. "
    parts = path.rstrip("/").split("/")
    for level in range(len(parts) - 1, max(-1, len(parts) - 1 - MAX_LEVELS), -1):
        parent = "/".join(parts[:level])
        try:
            names = list(islice(names_in(parent or ("/" if level else ".")), MAX_NAMES))
        except ToolError:
            continue
        found = [f"{parent}/{name}" if level else name for name in similar_names(parts[level], names)]
        if found:
            return FileMissing(f"{head}Did you mean {' or '.join(map(repr, found))}?")
        if level < len(parts) - 1:
            head += f"There is no {'/'.join(parts[: level + 1])!r}. "
        break
    return FileMissing(f"{head}Look for it with list_directory or glob_files.")


def similar_names(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that differ in case or form alone, else those that are much like the wanted one."""
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(comparable_name(name), []).append(name)
    key = comparable_name(wanted)
    if key in folded:
        return [name for name in folded[key] if name != wanted][:MAX_SUGGESTED]
    import difflib

    near = [name for name in folded if abs(len(name) - len(key)) <= 1 + len(key) // 4]
    return [name for one in difflib.get_close_matches(key, near, MAX_SUGGESTED, 0.6) for name in folded[one]][
        :MAX_SUGGESTED
    ]


def comparable_name(name: str) -> str:
    """The name as it is compared: without case, trailing spaces and differences of composition."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Roots:
    """The workspace and the directories granted beside it; no path reads or changes anything outside.

    Paths are relative to the workspace, or absolute and below a root. Links that stay below a root are
    followed, others refused, also when they are made while a call runs. Every method raises `ToolError`s that
    name the path and say what to do. A permitted change of a control file is made inside `control_change`.
    """

    def __init__(
        self,
        workspace: Path,
        granted: Iterable[Path] = (),
        *,
        names: ControlNames = STANDARD,
        control_change: control_files.ControlChange = control_files.run_unwatched,
    ) -> None:
        self._roots = tuple(Root.at(path) for path in (workspace, *granted))
        self.names = names
        self._control_change = control_change

    def move(self, workspace: Path) -> bool:
        """Change the workspace, keeping the granted directories; returns whether it is another one."""
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

    def locate(self, path: str, *, follow: bool = True) -> ResolvedPath:
        """Where the path really leads, as an open directory and a name; which may be absent. Close it."""
        return PathResolver(self._roots, path).resolve(self._absolute(path), follow=follow)

    def open_file(self, path: str) -> BinaryIO:
        """The regular file, opened to read its bytes; pipes, devices and sockets are refused without opening them."""
        with self.helpful(path):
            return os.fdopen(self._open_existing(path), "rb")

    def open_place(self, place: ResolvedPath, path: str) -> int:
        """A descriptor to read the regular file at a place; `path` is how messages name it."""
        if place.info is None:
            raise file_missing(path)
        self._regular(place.info, path)
        with explaining(path):
            fd = os.open(place.name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=place.dir_fd)
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
        """The `stat` of a path; without `follow` the `lstat`."""
        with self.helpful(path), self.locate(path, follow=follow) as place:
            if place.info is None:
                raise file_missing(path)
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

    def label(self, place: ResolvedPath) -> str:
        """The true name of a place, as clients and backups have it: relative in the workspace, else absolute."""
        inside = place.root.path == self.workspace
        return str(PurePosixPath(*place.parts)) if inside else str(place.path)

    def scan(self, path: str) -> Iterator[Entry]:
        """The entries of one directory in no order, links not followed."""
        fd = self.open_dir(path)
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    yield Entry(entry.name, entry_kind(entry))
        except OSError as error:
            raise explain_os_error(error, path) from None
        finally:
            os.close(fd)

    def is_control(self, path: str) -> bool:
        """Whether writing there could change what runs, present or absent: by name, a link or a hard link."""
        if self._is_named_control(path):
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
    def changing(self, places: Iterable[ResolvedPath]) -> Iterator[None]:
        """Change these places in here: a control file among them counts as changed with permission."""
        with contextlib.ExitStack() as changes:
            for place in places:
                if self._true_control(place):
                    changes.enter_context(self._control_change(str(place.path)))
            yield

    def holds_control(self, place: ResolvedPath) -> bool:
        """Whether a resolved place is a control path, by its true names or as another name of one."""
        named = self._true_control(place)
        return named or (place.info is not None and is_linked_control(place.info, self.paths, self.names))

    def hides_control(self, path: str, place: ResolvedPath) -> bool:
        """Whether a path leads to a control path by a link, without naming one itself."""
        return self._true_control(place) and not self._is_named_control(path)

    def _true_control(self, place: ResolvedPath) -> bool:
        """Whether the true names of a place make it a control path."""
        parts = place.parts if place.root is self._roots[0] else (place.root.path.name, *place.parts)
        return names_control(parts, self.names) or in_control_directory(place.root.path, place.parts)

    def _is_named_control(self, path: str) -> bool:
        """Whether a path names a control path as written, links not followed."""
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
        """Add suggestions of similar names to a `FileMissing` raised in here."""
        try:
            yield
        except FileMissing:
            raise self._missing(path) from None

    def _missing(self, path: str) -> FileMissing:
        """The error for a missing path: a dangling link, or a name that is similar to others."""
        try:
            with self.locate(path, follow=False) as place:
                if place.info is not None and modes.S_ISLNK(place.info.st_mode):
                    target = os.readlink(place.name, dir_fd=place.dir_fd)
                    return FileMissing(f"{path!r} is a link to {target!r}, which does not exist.")
        except (ToolError, OSError):
            pass
        return explain_missing(path, self._names)

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
                raise file_missing(path)
            if not modes.S_ISDIR(place.info.st_mode):
                raise PathRefused(f"{path!r} is a file, not a directory. Name a directory.")
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            with explaining(path):
                return os.open(place.name, flags, dir_fd=place.dir_fd)

    def _open_existing(self, path: str) -> int:
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
                raise explain_os_error(error, path) from None
            finally:
                os.close(root_fd)
            if handle is None:
                break
            try:
                self._regular(os.fstat(handle), path)
                return os.open(f"/proc/self/fd/{handle}", READ_FLAGS)
            except FileNotFoundError:
                break  # no /proc here
            except OSError as error:
                raise explain_os_error(error, path) from None
            finally:
                os.close(handle)
        with self.locate(path) as place:
            return self.open_place(place, path)

    def _regular(self, info: os.stat_result, path: str) -> None:
        """Raise unless it is a regular file."""
        if modes.S_ISDIR(info.st_mode):
            raise PathRefused(f"{path!r} is a directory, not a file; list_directory shows what is in it.")
        if not modes.S_ISREG(info.st_mode):
            raise refuse_special_file(path, info.st_mode)
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
