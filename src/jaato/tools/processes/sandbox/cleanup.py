"""Clean up after a confined command: quarantine control files that were not there before, and report them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jaato.tools.filesystem.control_files import STANDARD, ControlNames
from jaato.tools.processes.sandbox.protected_paths import ControlFiles, ProtectedPaths, root_of

MAX_COPIED_BYTES = 256 << 20
MAX_COPIED_FILES = 10_000
ASIDE = "removed-"


class Quarantine:
    """A directory that only this user may use, for what was moved away; a temporary one by default."""

    def __init__(self, place: Path | None = None) -> None:
        self._place = place

    def take(self, path: str, root: str) -> str:
        """Move what is at a path below a root away; returns where it is now. Raises OSError."""
        import shutil  # every session has a quarantine, and few put something in it

        below = os.path.relpath(path, root).split("/")
        with open_directory(root, below[:-1]) as parent, make_writable(parent):
            # out of the way first, under a name that means nothing: the rest may take a while
            aside = f"{ASIDE}{os.urandom(6).hex()}"
            os.rename(below[-1], aside, src_dir_fd=parent, dst_dir_fd=parent)
            try:
                return self._keep(parent, aside, below[-1])
            except (OSError, shutil.Error):
                return os.path.join(root, *below[:-1], aside)

    def _keep(self, parent: int, aside: str, name: str) -> str:
        """Move it on into a directory of its own in the quarantine."""
        import shutil

        kept = self._new()
        make_movable(parent, aside)
        target = f"{kept}/{name}"
        try:
            os.rename(aside, target, src_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                os.rmdir(kept)
                raise
            source = f"/proc/self/fd/{parent}/{aside}"
            check_size(source)
            if os.path.isdir(source) and not os.path.islink(source):
                shutil.copytree(source, target, symlinks=True)
                shutil.rmtree(aside, dir_fd=parent)
            else:
                shutil.copy2(source, target, follow_symlinks=False)
                os.unlink(aside, dir_fd=parent)
        return target

    def _new(self) -> str:
        """A new directory in the quarantine."""
        import tempfile

        if self._place is None:
            return tempfile.mkdtemp(prefix="jaato-removed-")
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.mkdtemp(dir=self._place)


@contextlib.contextmanager
def open_directory(root: str, parts: list[str]) -> Iterator[int]:
    """A directory below a root, reached without following a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(root, flags)
    try:
        for part in parts:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def make_writable(directory: int) -> Iterator[None]:
    """An open directory, of which entries can be moved in here even if a command has taken the right away."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & 0o300 == 0o300:
        yield
        return
    os.fchmod(directory, mode | 0o700)
    try:
        yield
    finally:
        os.fchmod(directory, mode)


def make_movable(parent: int, name: str) -> None:
    """Make a directory readable and movable, whatever its mode; a link is not changed."""
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode) or info.st_mode & 0o700 == 0o700:
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(info.st_mode) | 0o700)
    finally:
        os.close(fd)


def check_size(path: str) -> None:
    """Raise OSError for more than is copied to another file system."""
    total, count = os.lstat(path).st_size, 0
    for place, folders, files in os.walk(path):
        count += len(folders) + len(files)
        total += sum(os.lstat(f"{place}/{name}").st_size for name in files)
        if count > MAX_COPIED_FILES or total > MAX_COPIED_BYTES:
            break
    if count > MAX_COPIED_FILES or total > MAX_COPIED_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


CLOCK_S = 0.05
"""The coarsest resolution of file times."""

MAX_PERIODS = 1_000
MAX_SHOWN = 8
MAX_ADMITTED_FILES = 2_000
MISSING = "\0"
CONTROL = (
    "Control files decide what runs later, so a command cannot make them: what is under `removed` was moved to {kept}. "
    "Write it with a file tool, or ask for permission to change control files; both ask the user."
)
STUCK = "It could not be moved away and must be removed by hand: {paths}."
TOGETHER = "Commands with and without that permission ran at once, so which of them made it is unknown: end those without it first."

Signature = tuple[int, int, int]


class QuarantinedFile(msgspec.Struct, frozen=True):
    """A control file that appeared, relative to its root; `kept` is where it is now, empty if it could not be moved."""

    path: str
    kept: str
    together: bool = False
    """Whether commands with and without permission ran, so that which made it is unknown."""


class WriteWatch:
    """A confined command that can write, from before its start until it has ended.

    `control` says that it may change control files. `removed` is what was moved away since it was last read.
    """

    def __init__(self, roots: Sequence[str], control: bool) -> None:
        self.roots = tuple(roots)
        self.control = control
        self._removed: list[QuarantinedFile] = []

    def note(self, removed: Sequence[QuarantinedFile]) -> None:
        """Add to what was moved away."""
        self._removed += removed

    def take(self) -> list[QuarantinedFile]:
        """Return what was moved away since the last call."""
        taken, self._removed = self._removed, []
        return taken


class ControlFileGuard:
    """Keeps confined commands of a workspace from leaving control files behind. Safe from any thread.

    Commands share a workspace, so the creator of a file is unknown: while a command runs that may not create control
    files, none may appear, except those that file tools change with permission.
    """

    def __init__(
        self, names: ControlNames = STANDARD, quarantine: Path | None = None, home: str = ""
    ) -> None:
        self._names = names
        self._home = home
        self._quarantine = Quarantine(quarantine)
        self._lock = threading.RLock()
        self._watches: weakref.WeakSet[WriteWatch] = weakref.WeakSet()
        self._roots: tuple[str, ...] = ()
        self._known: dict[str, str | None] = {}
        self._admitted: dict[str, dict[str, Signature]] = {}
        self._files: dict[tuple[str, ...], ControlFiles] = {}
        self._periods: list[tuple[float, float]] = []
        self._began = 0.0

    def begin(self, roots: Sequence[str], control: bool) -> tuple[WriteWatch, ProtectedPaths]:
        """Start watching a command that may write these real directories. Raises `LinkedControlFile`."""
        with self._lock:
            watch = WriteWatch(roots, control)
            watch.note(self._check())  # of one that still runs: this result is the first to tell of it
            if not self._writers():
                self._roots, self._known, self._admitted = (), {}, {}
            if control:
                self._watches.add(watch)
                return watch, ProtectedPaths()
            files = self._control_files(roots)
            before = set(files.repositories)
            protected = files.protected()
            new = set(files.repositories) - before
            for path, link in protected.present.items():
                if root_of(path, self._roots) is None or root_of(path, new) is not None:
                    self._known[path] = link
            if not self._roots:
                self._began = time.time()
            self._roots = tuple(dict.fromkeys((*self._roots, *roots)))
            self._watches.add(watch)
            return watch, protected

    def end(self, watch: WriteWatch) -> None:
        """Quarantine what appeared since the command began, or since the last check. May be called again."""
        with self._lock:
            if watch not in self._watches:
                return
            self._check()
            self._watches.discard(watch)
            if watch.control:
                for files in self._files.values():
                    files.forget()
            elif not self._writers():
                self._periods = [*self._periods[-MAX_PERIODS:], (self._began, time.time())]
                self._roots = ()

    def finish(self, watch: WriteWatch) -> list[QuarantinedFile]:
        """End the watch; returns what was moved away since it began or since the last call."""
        with self._lock:
            self.end(watch)
            return watch.take()

    def sweep(self) -> list[QuarantinedFile]:
        """Move away what has appeared by now; returns it. Commands that run report it too when they end."""
        with self._lock:
            return self._check()

    @contextlib.contextmanager
    def change(self, path: str) -> Iterator[None]:
        """Context in which a control file is changed with permission."""
        with self._lock:
            self._check()
            try:
                yield
            finally:
                if self._roots:
                    self._admit(path)

    def _writers(self) -> list[WriteWatch]:
        """The commands that run and must not make control files."""
        return [watch for watch in self._watches if not watch.control]

    def _control_files(self, roots: Sequence[str]) -> ControlFiles:
        key = tuple(roots)
        if key not in self._files:
            self._files[key] = ControlFiles(key, self._names, self._was_writable_at, self._home)
        return self._files[key]

    def _was_writable_at(self, moment: float) -> bool:
        """Whether a confined command was running at a time."""
        periods = [*self._periods, *([(self._began, time.time())] if self._roots else [])]
        return any(start - CLOCK_S <= moment <= end + CLOCK_S for start, end in periods)

    def _check(self) -> list[QuarantinedFile]:
        """Move away what has appeared since the commands that run began."""
        if not self._roots:
            return []
        present: dict[str, str | None] = {}
        for key in {watch.roots for watch in self._writers()} or {self._roots}:
            present |= self._control_files(key).present()
        removed: list[QuarantinedFile] = []
        for path in sorted(present):
            if any(above in self._admitted for above in (path, *ancestors(path))):
                continue
            if self._known.get(path, MISSING) != present[path]:
                removed += self._remove(path)
        for path, files in self._admitted.items():
            for one in find_changed(path, files):
                removed += self._remove(one)
        for path, link in self._known.items():
            if link is not None and not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.symlink(link, path)  # a link cannot be pinned, so it is put back
        for watch in list(self._watches):
            watch.note(removed)
        return removed

    def _remove(self, path: str) -> list[QuarantinedFile]:
        """Move one away, unless it went with another."""
        root = root_of(path, self._roots)
        if root is None or not os.path.lexists(path):
            return []
        shown = os.path.relpath(path, root) if root == self._roots[0] else path
        together = any(watch.control for watch in self._watches)
        try:
            return [QuarantinedFile(shown, self._quarantine.take(path, root), together)]
        except FileNotFoundError:
            return []
        except OSError:
            return [QuarantinedFile(shown, "", together)]

    def _admit(self, path: str) -> None:
        """Admit the current content of a path as changed with permission."""
        present = self._control_files(self._roots).present()
        for entry in present:
            if entry in self._known:
                continue
            if entry == path or path.startswith(f"{entry}/") or entry.startswith(f"{path}/"):
                files = self._admitted.setdefault(entry, {})
                own = path if len(path) > len(entry) else entry
                files.pop(own, None)
                files.update(signatures(own))


def ancestors(path: str) -> Iterator[str]:
    """The directories above a path."""
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


def signatures(path: str) -> dict[str, Signature]:
    """Signatures of a file, or of those below a directory, to detect later changes."""
    found: dict[str, Signature] = {}
    for one in files_of(path):
        with contextlib.suppress(OSError):
            info = os.lstat(one)
            found[one] = info.st_ino, info.st_ctime_ns, info.st_size
        if len(found) >= MAX_ADMITTED_FILES:
            break
    return found


def files_of(path: str) -> Iterator[str]:
    """A path that is no directory, or all such below it."""
    try:
        folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return
    if not folder:
        yield path
    for place, folders, files in os.walk(path) if folder else ():
        yield from (f"{place}/{name}" for name in files)
        yield from (link for name in folders if os.path.islink(link := f"{place}/{name}"))


def find_changed(path: str, known: Mapping[str, Signature]) -> list[str]:
    """The files at or below a path that are others than were admitted."""
    return [one for one, now in signatures(path).items() if known.get(one) != now]


def add_to_result(value: dict[str, Any], removed: Sequence[QuarantinedFile]) -> dict[str, Any]:
    """A result with what was moved away, and what to do instead."""
    if not removed:
        return value
    kept = list(dict.fromkeys(os.path.dirname(one.kept) for one in removed if one.kept))
    stuck = [one.path for one in removed if not one.kept]
    notes = [value["note"]] if value.get("note") else []
    if kept:
        notes.append(CONTROL.format(kept=", ".join(kept[:MAX_SHOWN])))
    if stuck:
        notes.append(STUCK.format(paths=", ".join(stuck)))
    if any(one.together for one in removed):
        notes.append(TOGETHER)
    paths = [*value.get("removed", ()), *(one.path for one in removed)]
    return {**value, "removed": list(dict.fromkeys(paths)), "note": " ".join(notes)}
