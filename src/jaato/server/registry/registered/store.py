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
from jaato.server.registry.registered.definition import FORMAT, StoredTool, decode_stored_tool
from jaato.storage.private_files import sync_directory
from jaato.tools.filesystem.atomic import TEMPORARY_SUFFIX, read_bounded, write_private

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
"""What distinguishes a file from the one before it: inode, time of change, size."""


class RegistryFull(JaatoError):
    """There are as many registered tools as there may be."""

    code = "registry.full"


class FileContent(NamedTuple):
    """A file of the folder: what is kept in it, or why nothing can be made of it."""

    stamp: Stamp
    entry: StoredTool | None
    why: str = ""


Mark = tuple[int, int]
FolderChanges = tuple[dict[str, FileContent], set[str]]
"""Files that are new or changed, and those that are gone."""


def file_name(name: str, version: str) -> str:
    """The file of a version; both are checked to hold nothing that a path does."""
    return f"{name}@{version}{SUFFIX}"


class ToolFolder:
    """The kept tools, as they are on disk. Several processes may change them, one at a time."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FOLDER
        self._seen: Mark | None = None
        self._whole = self._changed = False
        """Whether all there is was seen or written by this process since it holds the folder, and whether it wrote."""

    def find_changes(self, known: dict[str, Stamp]) -> FolderChanges | None:
        """What is another than known; None where nothing is. Raises OSError."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return {}, set(known)
        mark = mark_of(state)
        if mark == self._seen:
            self._whole = True
            return None
        stamps = self._stamps()
        self._seen = None if time_ns() - state.st_mtime_ns < RECENT_NS else mark
        self._whole = True
        if stamps == known:
            return None
        changed = {
            one: read_file(self.path / one, stamp) for one, stamp in stamps.items() if known.get(one) != stamp
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
    def lock(self) -> Iterator[None]:
        """Hold the right to change the folder, among processes. Raises OSError, BlockingIOError while another process does."""
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path / LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._whole = self._changed = False
            before = self.path.stat()
            for left in os.listdir(self.path):
                if left.startswith(".") and left.endswith(
                    TEMPORARY_SUFFIX
                ):  # its writer was killed: the lock is ours
                    with suppress(OSError):
                        (self.path / left).unlink()
            yield
            self._note(before)
        finally:
            os.close(descriptor)

    def _note(self, before: os.stat_result) -> None:
        """Have the folder's time tell each change from the one before it, whatever the clock's ticks are. What was written by
        this process need not be looked at again."""
        after = self.path.stat()
        if self._changed and after.st_mtime_ns <= before.st_mtime_ns:
            os.utime(self.path, ns=(after.st_atime_ns, before.st_mtime_ns + 1))
            after = self.path.stat()
        settled = not self._changed or after.st_mtime_ns > before.st_mtime_ns
        self._seen = mark_of(after) if self._whole and settled else None

    def put(self, entry: StoredTool, known: dict[str, Stamp]) -> tuple[str, FileContent]:
        """Keep a tool, durable when this returns; what cannot be read in its place is set aside. `known` are the files there
        are. For who holds the folder.

        Raises `RegistryFull`, OSError, after which the folder is as it was.
        """
        name = file_name(*entry.key)
        content = msgspec.json.encode(entry)
        file = self.path / name
        before = known.get(name)
        if before is None and len(known) >= MAX_TOOLS:
            raise RegistryFull(f"This registry keeps at most {MAX_TOOLS:,} registered tools; delete some.")
        whole = sum(stamp[2] for stamp in known.values()) - (before[2] if before else 0)
        if len(content) > MAX_FILE_BYTES or whole + len(content) > MAX_BYTES:
            raise RegistryFull(
                f"RegisteredTools tools take at most {MAX_BYTES:,} bytes, one at most {MAX_FILE_BYTES:,}."
            )
        if before is not None and read_file(file, before).entry is None:
            os.link(file, self.path / f"{name}.{secrets.token_hex(4)}{ASIDE}", follow_symlinks=False)
        self._changed, self._whole = True, False
        write_private(file, content)
        self._whole = True
        return name, FileContent(stamp_of(file.stat(follow_symlinks=False)), entry)

    def remove(self, file: str) -> None:
        """Keep a tool no longer, durable when this returns. For who holds the folder. Raises OSError."""
        self._changed, self._whole = True, False
        (self.path / file).unlink()
        sync_directory(self.path)
        self._whole = True


def mark_of(state: os.stat_result) -> Mark:
    """What distinguishes the folder from itself before a change."""
    return state.st_ino, state.st_mtime_ns


def stamp_of(state: os.stat_result) -> Stamp:
    """What distinguishes a file from another in its place."""
    return state.st_ino, state.st_mtime_ns, state.st_size


def read_file(file: Path, stamp: Stamp) -> FileContent:
    """What is kept in a file. Never raises: a file that cannot be read keeps out nothing but its own tool."""
    try:
        if file.is_symlink():
            return FileContent(stamp, None, "it is a link")
        content = read_bounded(file, MAX_FILE_BYTES)
        if content is None:
            return FileContent(stamp, None, "it has just gone")
        entry = decode_stored_tool(content)
    except JaatoError as error:
        return FileContent(stamp, None, str(error))
    if entry.format != FORMAT:
        return FileContent(stamp, None, f"a newer jaato has written it (form {entry.format})")
    if file.name != file_name(*entry.key):
        return FileContent(
            stamp, None, f"it is that of {entry.name!r:.80}, version {entry.tool.version!r:.80}"
        )
    if isinstance(entry.tool.handler, msgspec.UnsetType):
        return FileContent(stamp, None, "it does not say who carries out its calls")
    return FileContent(stamp, entry)
