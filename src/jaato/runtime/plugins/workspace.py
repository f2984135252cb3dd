"""The plugins that a workspace brings: read once, shown, and run from memory only if a person has vouched for every byte of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from jaato.errors import PluginError
from jaato.lazy_pattern import lazy_pattern
from jaato.tools.call import replace_surrogates
from jaato.tools.permissions.trust import Trust

FOLDER = Path(".jaato") / "plugins"
NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MAX_FILES, MAX_TREE_BYTES, MAX_DEPTH, MAX_PLUGINS = 500, 8_388_608, 12, 200
MAX_ALL_BYTES, MAX_ENTRIES = 33_554_432, 2_000
"""Of all plugins of a workspace together: they are read at every start, the untrusted ones too."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe or device among the files does not hold the reader up."""


class PluginFiles(msgspec.Struct, frozen=True):
    """A plugin's files as they were read: paths below the plugin with their bytes; `problem` says why it cannot be
    used."""

    name: str
    path: Path
    files: Mapping[str, bytes] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""

    @property
    def content(self) -> bytes:
        """Every path with the hash of its bytes: what a person vouches for."""
        listed = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(self.files.items())}
        return b"jaato plugin 1\n" + json.dumps([self.name, listed], sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """One hash of all of it."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def size_bytes(self) -> int:
        """How large all files are together."""
        return sum(map(len, self.files.values()))


def read_workspace_plugins(workspace: Path) -> list[PluginFiles]:
    """The plugins below `.jaato/plugins` of a workspace, sorted by name. Nothing of them is run; links are not
    followed, neither to the directory nor in it."""
    try:
        here = os.open(workspace, DIRECTORY & ~os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        for part in FOLDER.parts:
            below = os.open(part, DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        return reject_duplicates(read_all(here, workspace / FOLDER))
    except OSError:
        return []  # there is no such directory, or it is a link
    finally:
        os.close(here)


def read_all(folder: int, place: Path) -> list[PluginFiles]:
    """The plugins of an open directory, as many and as much as may be."""
    found: list[PluginFiles] = []
    room = MAX_ALL_BYTES
    for name in entries(folder, MAX_ENTRIES):
        files: dict[str, bytes] = {}
        one = tree_at(folder, name, place, files, room)
        room -= sum(map(len, files.values()))
        if one is not None:
            found.append(one)
        if len(found) == MAX_PLUGINS:
            break
    return found


def entries(folder: int, most: int) -> list[str]:
    """So many names of an open directory, sorted."""
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in itertools.islice(found, most))


def reject_duplicates(trees: list[PluginFiles]) -> list[PluginFiles]:
    """The plugins, those of one name unusable: a person who has read the one must not vouch for the other."""
    names = Counter(tree.name for tree in trees)
    twice = "is there twice, as a file and as a directory"
    return [one if names[one.name] == 1 else PluginFiles(one.name, one.path, problem=twice) for one in trees]


def tree_at(folder: int, entry: str, place: Path, files: dict[str, bytes], room: int) -> PluginFiles | None:
    """The plugin an entry of the directory is: a module `NAME.py` or a package `NAME`; None for what is neither. What is
    read, be it for nothing, is in `files`; one that needs more than `room` bytes cannot be used."""
    name = entry.removesuffix(".py")
    if entry.startswith(".") or entry == "__pycache__":
        return None
    path = place / entry
    shown = replace_surrogates(entry)
    try:
        mode = os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return None  # it is gone by now
    if stat.S_ISLNK(mode):
        return PluginFiles(shown, path, problem="is a symbolic link, which is not followed")
    if stat.S_ISREG(mode) and not entry.endswith(".py"):
        return None
    if not NAME.fullmatch(name):
        return PluginFiles(
            shown, path, problem="has no name a plugin can have: letters, digits and _, at most 64"
        )
    together = f"is, together with the others here, larger than {MAX_ALL_BYTES:,} bytes"
    if room <= 0:
        return PluginFiles(name, path, problem=together)
    try:
        if stat.S_ISDIR(mode):
            read_folder(folder, entry, "", files, 0)
            if "__init__.py" not in files:
                raise PluginError("is a directory without __init__.py")
        else:
            read_file(folder, entry, f"{name}.py", files)
    except PluginError as error:
        return PluginFiles(name, path, problem=str(error))
    except OSError as error:
        return PluginFiles(name, path, problem=f"cannot be read: {error.strerror}")
    if sum(map(len, files.values())) > room:
        return PluginFiles(name, path, problem=together)
    return PluginFiles(name, path, MappingProxyType(files))


def read_folder(
    parent: int, entry: str, prefix: str, files: dict[str, bytes], depth: int, seen: int = 0
) -> int:
    """Read every file of a directory into `files`; gives how many entries were seen, `seen` before it included. Raises
    `PluginError` for what a plugin must not have."""
    if depth > MAX_DEPTH:
        raise PluginError(f"is nested deeper than {MAX_DEPTH} directories")
    here = os.open(entry, DIRECTORY, dir_fd=parent)
    try:
        for name in entries(here, MAX_FILES + 2):
            if name == "__pycache__":
                continue  # never read by us, and written by others
            seen += 1
            if seen > MAX_FILES:
                raise PluginError(f"has more than {MAX_FILES} files and directories")
            below = f"{prefix}{name}"
            mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                seen = read_folder(here, name, f"{below}/", files, depth + 1, seen)
            else:
                read_file(here, name, below, files)
        return seen
    finally:
        os.close(here)


def read_file(parent: int, entry: str, below: str, files: dict[str, bytes]) -> None:
    """Read one file into `files`. Raises `PluginError` for a link, a special file, and more than is allowed."""
    shown = replace_surrogates(below)
    if shown != below:
        raise PluginError("has a file whose name is no Unicode")
    if stat.S_ISLNK(os.stat(entry, dir_fd=parent, follow_symlinks=False).st_mode):
        raise PluginError(f"has the symbolic link {shown}, which is not followed")
    number = os.open(entry, FILE, dir_fd=parent)
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise PluginError(f"has {shown}, which is no regular file")
        room = MAX_TREE_BYTES - sum(map(len, files.values()))
        if os.fstat(number).st_size > room or len(data := file.read(room + 1)) > room:
            raise PluginError(f"is larger than {MAX_TREE_BYTES // 1_048_576} MiB")
    files[below] = data


TrustState = Literal["trusted", "untrusted", "changed", "unusable"]


class WorkspacePlugin(msgspec.Struct, frozen=True):
    """A plugin of the workspace and whether it may run; `changed` since it was trusted is as good as untrusted."""

    tree: PluginFiles
    standing: TrustState

    @property
    def warning(self) -> str:
        """Why it was not run; empty for a trusted one."""
        match self.standing:
            case "unusable":
                return f"of this workspace {self.tree.problem}; it was not run"
            case "untrusted":
                return (
                    "is brought by this workspace and was not run: read it, then `jaato plugins trust "
                    f"{self.tree.name}`"
                )
            case "changed":
                return (
                    "has changed since it was trusted and was not run: read it again, then `jaato plugins trust "
                    f"{self.tree.name}`"
                )
        return ""


def find_workspace_plugins(workspace: Path, trust: Trust) -> list[WorkspacePlugin]:
    """What this workspace brings. Raises `ConfigError` for a damaged list of what is trusted."""
    return [WorkspacePlugin(tree, trust_state(tree, trust)) for tree in read_workspace_plugins(workspace)]


def trust_state(tree: PluginFiles, trust: Trust) -> TrustState:
    """Whether exactly these bytes are trusted at this place."""
    if tree.problem:
        return "unusable"
    if trust.trusts(tree.path, tree.content):
        return "trusted"
    return "changed" if trust.is_known(tree.path) else "untrusted"
