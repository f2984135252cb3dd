"""The folder of registered tools: a private file for each version, so that one that is broken or lost is no other's."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time_ns
from typing import NamedTuple

import msgspec

from jaato.errors import JaatoError
from jaato.server.registry.registered.types import FORMAT, Entry, decode_entry
from jaato.tools.atomic import read_small, write_private

FOLDER = "registered-tools"
LOCK = ".lock"
SUFFIX = ".json"
ASIDE = ".broken"
MAX_TOOLS = 10_000
MAX_FILE_BYTES = 4_000_000
MAX_BYTES = 256_000_000
RECENT_NS = 2_000_000_000
"""So young a change may share its time with the next one."""

Stamp = tuple[int, int, int]
"""By what a file is told from the one before it: inode, time of change, size."""


class Full(JaatoError):
    """There are as many registered tools as there may be."""

    code = "registry.full"


class Read(NamedTuple):
    """A file of the folder: what is kept in it, or why nothing can be made of it."""

    stamp: Stamp
    entry: Entry | None
    why: str = ""


def file_name(name: str, version: str) -> str:
    """The file of a version; both are checked to hold nothing that a path does."""
    return f"{name}@{version}{SUFFIX}"


class Folder:
    """The kept tools, as they are on disk. Several processes may change them, one at a time."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FOLDER
        self._seen: tuple[int, int] | None = None

    def look(self, known: dict[str, Stamp]) -> tuple[dict[str, Read], set[str]] | None:
        """What is another than known: files that are new or changed, and those that are gone. None where nothing can have
        changed since the last look. Raises OSError."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return {}, set(known)
        mark = (state.st_ino, state.st_mtime_ns)
        if mark == self._seen:
            return None
        stamps = self._stamps()
        self._seen = None if time_ns() - state.st_mtime_ns < RECENT_NS else mark
        changed = {
            one: read(self.path / one, stamp) for one, stamp in stamps.items() if known.get(one) != stamp
        }
        return changed, known.keys() - stamps.keys()

    def _stamps(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        with os.scandir(self.path) as files:
            for file in files:
                if file.name.endswith(SUFFIX) and not file.name.startswith("."):
                    with suppress(FileNotFoundError):
                        found[file.name] = stamp_of(file.stat(follow_symlinks=False))
        return found

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the right to change the folder, among processes. Raises OSError, BlockingIOError while somebody else does."""
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path / LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in self.path.glob(f".*{SUFFIX}.*"):  # whoever wrote it was killed: the lock is ours
                with suppress(OSError):
                    left.unlink()
            yield
        finally:
            os.close(descriptor)

    def put(self, entry: Entry, known: dict[str, Stamp]) -> tuple[str, Read]:
        """Keep a tool, durable when this returns; what cannot be read in its place is set aside. `known` are the files there
        are. For who holds the folder.

        Raises `Full`, OSError, after which the folder is as it was.
        """
        name = file_name(*entry.key)
        content = msgspec.json.encode(entry)
        file = self.path / name
        before = known.get(name)
        if before is None and len(known) >= MAX_TOOLS:
            raise Full(f"This registry keeps at most {MAX_TOOLS:,} registered tools; delete some.")
        whole = sum(stamp[2] for stamp in known.values()) - (before[2] if before else 0)
        if len(content) > MAX_FILE_BYTES or whole + len(content) > MAX_BYTES:
            raise Full(f"Registered tools take at most {MAX_BYTES:,} bytes, one at most {MAX_FILE_BYTES:,}.")
        if before is not None and read(file, before).entry is None:
            os.link(file, self.path / f"{name}.{secrets.token_hex(4)}{ASIDE}", follow_symlinks=False)
        write_private(file, content)
        return name, Read(stamp_of(file.stat(follow_symlinks=False)), entry)

    def remove(self, file: str) -> None:
        """Keep a tool no longer, durable when this returns. For who holds the folder. Raises OSError."""
        (self.path / file).unlink()
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def stamp_of(state: os.stat_result) -> Stamp:
    """By what a file is told from another in its place."""
    return state.st_ino, state.st_mtime_ns, state.st_size


def read(file: Path, stamp: Stamp) -> Read:
    """What is kept in a file. Never raises: a file that cannot be read keeps out nothing but its own tool."""
    try:
        if file.is_symlink():
            return Read(stamp, None, "it is a link")
        content = read_small(file, MAX_FILE_BYTES)
        if content is None:
            return Read(stamp, None, "it has just gone")
        entry = decode_entry(content)
    except JaatoError as error:
        return Read(stamp, None, str(error))
    if entry.format != FORMAT:
        return Read(stamp, None, f"a newer jaato has written it (form {entry.format})")
    if file.name != file_name(*entry.key):
        return Read(stamp, None, f"it is that of {entry.name!r:.80}, version {entry.tool.version!r:.80}")
    if isinstance(entry.tool.handler, msgspec.UnsetType):
        return Read(stamp, None, "it does not say who carries out its calls")
    return Read(stamp, entry)
