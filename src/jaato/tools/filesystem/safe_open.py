"""Open a path without leaving the directories it may lie in (openat2 or a walk), whatever links are swapped in."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from jaato.tools.filesystem.errors import PathRefused, explain_os_error, explaining

SYS_OPENAT2 = 437  # the same on every architecture Linux gives new numbers to
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
OPEN_DIRECTORY = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 40
MAX_PATH_BYTES = 4095


class Root(msgspec.Struct, frozen=True):
    """A directory that may be used: its real path, and every spelling of it that is understood."""

    path: Path
    spellings: tuple[tuple[str, ...], ...]

    @classmethod
    def at(cls, path: Path) -> Root:
        """The root at this path, which may itself be reached by links."""
        given = Path(os.path.normpath(path.absolute()))
        real = Path(os.path.realpath(given))
        return cls(real, tuple(dict.fromkeys((real.parts, given.parts))))

    def strip(self, parts: Sequence[str]) -> list[str] | None:
        """The rest of an absolute path's parts when it starts with this root, else None."""
        for spelling in self.spellings:
            if tuple(parts[: len(spelling)]) == spelling:
                return list(parts[len(spelling) :])
        return None

    def open(self) -> int:
        """A descriptor of the directory; raises `FileFailed` when it is gone."""
        with explaining(str(self.path)):
            return os.open(self.path, OPEN_DIRECTORY)


class ResolvedPath(msgspec.Struct):
    """Where a path really leads: an open directory and a name in it, present or not.

    `parts` is the resolved path below `root`; the root itself has none and is named `.`. Close it.
    """

    root: Root
    parts: tuple[str, ...]
    dir_fd: int
    name: str
    info: os.stat_result | None

    def __enter__(self) -> ResolvedPath:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        if self.dir_fd >= 0:
            os.close(self.dir_fd)
            self.dir_fd = -1

    @property
    def path(self) -> Path:
        """The resolved absolute path."""
        return self.root.path.joinpath(*self.parts)

    @property
    def is_root(self) -> bool:
        """Whether this is the root itself."""
        return not self.parts


def outside(path: str, roots: Sequence[Root]) -> PathRefused:
    """The refusal of a path that leaves."""
    allowed = ", ".join(str(root.path) for root in roots)
    return PathRefused(
        f"{path!r} leads outside what may be used ({allowed}). Name a path inside, "
        "relative to the workspace, or ask the user to grant that directory."
    )


@functools.cache
def kernel_open() -> object | None:
    """`syscall` of the C library when this kernel has openat2 and nothing forbids it, else None."""
    import sys

    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    how = (ctypes.c_uint64 * 3)(O_PATH | os.O_CLOEXEC, 0, RESOLVE_BENEATH)
    fd = call(SYS_OPENAT2, -100, b".", ctypes.byref(how), ctypes.c_size_t(24))  # AT_FDCWD
    if fd < 0:
        return None
    os.close(fd)
    return call


def open_beneath(root_fd: int, path: str, flags: int) -> int | None:
    """openat2 that stays beneath, without magic links: a descriptor, or None where the walk must decide.

    Raises `OSError` for what the walk would not find either.
    """
    call = kernel_open()
    if call is None:
        return None
    import ctypes

    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    raw = os.fsencode(path)
    fd: int = call(SYS_OPENAT2, root_fd, raw, ctypes.byref(how), ctypes.c_size_t(24))  # type: ignore[operator]
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    if code in (errno.EXDEV, errno.EAGAIN, errno.ENOSYS, errno.EPERM, errno.EINTR):
        return None  # it leaves this root (perhaps into another), or something moved meanwhile
    raise OSError(code, os.strerror(code), path)


@functools.cache
def proc_device() -> int:
    """The device of /proc, whose links are not what they say; -1 where there is none."""
    try:
        return os.lstat("/proc/self").st_dev
    except OSError:
        return -1


class PathResolver:
    """One resolution, component by component, each opened without following links; links are resolved here.

    The directories passed are kept open, so `..` goes back to where the walk came from, not to where a
    directory has been moved meanwhile.
    """

    def __init__(self, roots: Sequence[Root], path: str) -> None:
        self.roots = roots
        self.path = path
        self.root = roots[0]
        self.open: list[int] = []
        self.names: list[str] = []
        self.todo: deque[str] = deque()
        self.links_left = MAX_LINKS

    def close(self) -> None:
        """Close every directory passed."""
        while self.open:
            os.close(self.open.pop())

    def enter(self, parts: Sequence[str]) -> None:
        """Start again at the root that holds these absolute parts; raises `PathRefused` when none does."""
        for root in self.roots:
            rest = root.strip(parts)
            if rest is not None:
                self.close()
                self.root, self.names, self.todo = root, [], deque(rest)
                self.open.append(root.open())
                return
        raise outside(self.path, self.roots)

    def spend(self) -> None:
        """Count a link or a swap; raises `PathRefused` when there are too many."""
        self.links_left -= 1
        if self.links_left < 0:
            raise PathRefused(
                f"{self.path!r} has too many symbolic links in it, or keeps changing; name the target."
            )

    def up(self) -> None:
        """`..`: back one directory, perhaps out of this root and into another."""
        if self.names:
            os.close(self.open.pop())
            self.names.pop()
        elif len(self.root.path.parts) > 1:  # above / is /
            self.enter([*self.root.path.parts[:-1], *self.todo])

    def link(self, name: str, device: int) -> None:
        """Follow the link `name` of the current directory."""
        self.spend()
        if device == proc_device():
            raise PathRefused(
                f"{self.path!r} goes through a link of /proc, which is refused. Name the target itself."
            )
        target = os.readlink(name, dir_fd=self.open[-1])
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            self.enter(["/", *parts, *self.todo])
        else:
            self.todo.extendleft(reversed(parts))

    def resolve(self, parts: Sequence[str], *, follow: bool) -> ResolvedPath:
        """The place these absolute parts lead to; `follow` says whether a link at the end is followed too."""
        try:
            self.enter(parts)
            while self.todo:
                name = self.todo.popleft()
                if name == "..":
                    self.up()
                    continue
                place = self.step(name, follow)
                if place is not None:
                    return place
            return self.here()
        except OSError as error:
            raise explain_os_error(error, self.path) from None
        finally:
            self.close()

    def step(self, name: str, follow: bool) -> ResolvedPath | None:
        """One component: the place when it is the last, else None and further down."""
        last = not self.todo
        try:
            info = os.stat(name, dir_fd=self.open[-1], follow_symlinks=False)
        except FileNotFoundError:
            if last:
                return ResolvedPath(self.root, (*self.names, name), self.open.pop(), name, None)
            raise
        if stat.S_ISLNK(info.st_mode) and not (last and not follow):
            try:
                self.link(name, info.st_dev)
            except OSError as error:
                if error.errno != errno.EINVAL:  # swapped for something that is no link: look again
                    raise
                self.spend()
                self.todo.appendleft(name)
            return None
        if last:
            return ResolvedPath(self.root, (*self.names, name), self.open.pop(), name, info)
        try:
            self.open.append(os.open(name, OPEN_DIRECTORY, dir_fd=self.open[-1]))
            self.names.append(name)
        except OSError as error:
            if not stat.S_ISDIR(info.st_mode) or error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            self.spend()  # swapped for a link since it was looked at: look again
            self.todo.appendleft(name)
        return None

    def here(self) -> ResolvedPath:
        """The directory the walk ended in."""
        if not self.names:
            info = os.fstat(self.open[-1])
            return ResolvedPath(self.root, (), self.open.pop(), ".", info)
        name = self.names[-1]
        os.close(self.open.pop())
        info = os.stat(name, dir_fd=self.open[-1], follow_symlinks=False)
        return ResolvedPath(self.root, tuple(self.names), self.open.pop(), name, info)
