"""A private directory for a plugin's own small files: no link is followed, reads are bounded, writes atomic."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from jaato.errors import ToolError
from jaato.tools.filesystem.atomic import replace_file_at
from jaato.tools.filesystem.errors import FileFailed, FileMissing, PathRefused, explain_os_error, explaining

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_NAMES = 10_000
LOCK_WITHIN_S = 20.0


class DirectoryBusy(ToolError):
    """Another process holds the lock of the directory."""

    code = "folder_busy"
    retryable = True


class PrivateDirectory:
    """The directory `parts` below `root`, which need not exist until something is written.

    Only `root` itself may be reached by links, so that links in an untrusted workspace cannot redirect these files.
    Names are single parts. Every method raises `ToolError`s that name the path and say what to do.
    """

    def __init__(self, root: Path, *parts: str) -> None:
        self._root = root
        self._parts = parts
        self.label = "/".join(parts)

    def names(self) -> list[str]:
        """The names of the regular files in it, sorted; none when it does not exist. Hidden ones are left out."""
        with self._open_directory() as fd:
            if fd is None:
                return []
            found: list[str] = []
            with os.scandir(fd) as listing:
                for entry in listing:
                    if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                        found.append(entry.name)
                        if len(found) > MAX_NAMES:
                            raise FileFailed(
                                f"{self.label!r} has more than {MAX_NAMES} files. Move some elsewhere."
                            )
            return sorted(found)

    def stat(self, name: str) -> os.stat_result | None:
        """The `lstat` of a file; None when there is none."""
        with self._open_directory() as fd:
            if fd is None:
                return None
            try:
                return os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
            except (OSError, ValueError) as error:
                raise self._refusal(error, name) from None

    def read(self, name: str, most_bytes: int, *, cut: bool = False) -> bytes | None:
        """All of a regular file, or with `cut` its start; None when there is none."""
        with self._open_directory() as fd:
            return None if fd is None else self._read(fd, name, most_bytes, cut)

    def write(self, name: str, data: bytes, *, mode: int = 0o644) -> None:
        """Put a file in the place of whatever has the name, durable when this returns; the directory is made."""
        with self._open_or_make() as fd:
            try:
                replace_file_at(fd, name, data, mode)
            except (OSError, ValueError) as error:
                raise self._refusal(error, name) from None

    def remove(self, name: str) -> None:
        """Remove a file. Raises `FileMissing`."""
        with self._open_directory() as fd:
            try:
                if fd is None:
                    raise FileNotFoundError(errno.ENOENT, "no such directory")
                os.unlink(name, dir_fd=fd)
            except OSError as error:
                raise self._refusal(error, name) from None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one, among processes and threads, who changes what is in here."""
        with self._open_or_make() as fd:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            try:
                lock = os.open(".lock", flags, 0o600, dir_fd=fd)
            except OSError as error:
                raise self._refusal(error, ".lock") from None
            try:
                self._wait_for(lock)
                yield
            finally:
                os.close(lock)

    def _wait_for(self, lock: int) -> None:
        """Take the lock within `LOCK_WITHIN_S`. Raises `DirectoryBusy`."""
        until = time.monotonic() + LOCK_WITHIN_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise DirectoryBusy(
                        f"Another process has been changing {self.label!r} for {LOCK_WITHIN_S:g} s. Try again later."
                    ) from None
                time.sleep(0.01)
            else:
                return

    def _read(self, fd: int, name: str, most_bytes: int, cut: bool) -> bytes | None:
        """A bounded read that waits for no pipe."""
        path = f"{self.label}/{name}"
        try:
            file = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=fd
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._refusal(error, name) from None
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise PathRefused(f"{path!r} is no regular file. Remove it.")
            with explaining(path):
                data = opened.read(most_bytes + 1)
        if len(data) > most_bytes and not cut:
            raise FileFailed(f"{path!r} has more than {most_bytes:,} bytes. Shorten it or move it elsewhere.")
        return data[:most_bytes]

    @contextlib.contextmanager
    def _open_or_make(self) -> Iterator[int]:
        """The directory, open, with those above it."""
        with self._open_directory(make=True) as fd:
            if fd is None:  # the root itself is not there
                raise FileMissing(
                    f"{str(self._root)!r} does not exist. Create it or choose another workspace."
                )
            yield fd

    @contextlib.contextmanager
    def _open_directory(self, *, make: bool = False) -> Iterator[int | None]:
        """The directory, open; None when it does not exist."""
        fd = self._open(make)
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _open(self, make: bool) -> int | None:
        """Step by step down from the root, over no link."""
        try:
            fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain_os_error(error, str(self._root)) from None
        for depth, part in enumerate(self._parts, 1):
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=fd)
                below = os.open(part, DIRECTORY, dir_fd=fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                label = "/".join(self._parts[:depth])
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise PathRefused(
                        f"{label!r} is a link or a file.", ask="put a directory in its place."
                    ) from None
                raise explain_os_error(error, label) from None
            finally:
                os.close(fd)
            fd = below
        return fd

    def _refusal(self, error: OSError | ValueError, name: str) -> Exception:
        """Why a file cannot be used."""
        path = f"{self.label}/{name[:200]}"
        if isinstance(error, ValueError):
            return PathRefused(f"{path!r} cannot be a file name. Correct it.")
        if error.errno == errno.ELOOP:
            return PathRefused(f"{path!r} is a link, which is not followed. Put a file in its place.")
        return explain_os_error(error, path)


class SourceDirectory(NamedTuple):
    """A directory, `parts` below `root`, whose files the user wrote for every workspace, or came with the workspace."""

    owner: Literal["user", "workspace"]
    root: Path
    parts: tuple[str, ...]

    @property
    def folder(self) -> PrivateDirectory:
        """The directory, for reading."""
        return PrivateDirectory(self.root, *self.parts)
