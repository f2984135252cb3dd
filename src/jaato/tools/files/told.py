"""What a call has changed, as clients are told it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from jaato.protocol.specs import FileChange
from jaato.tools.beneath import Place
from jaato.tools.call import Call
from jaato.tools.files.targets import Change
from jaato.tools.paths import Roots

MAX_COUNTED_BYTES = 1 << 20
"""Of how large a file lines are counted."""
MAX_TOLD = 500
MAX_PATH_CHARS = 1_000


def tell(call: Call, changes: Iterable[Change]) -> None:
    """Note changes that have appeared; a file that was written as it was is none."""
    for change in changes:
        told = told_of(change)
        if told is not None:
            call.changed.append(told)


def told_of(change: Change) -> FileChange | None:
    """A change in short."""
    path, seen = change.target.label, change.seen
    old = b"" if seen is None else seen.data
    if change.content is None:
        new = b"" if change.link is None else None
    else:
        new = change.content if isinstance(change.content, bytes) else None
    if seen is None:
        added, _ = counted(b"", new)
        return FileChange(path, "created", added, None if added is None else 0)
    if change.content is None and change.link is None:
        _, removed = counted(old, b"")
        return FileChange(path, "deleted", None if removed is None else 0, removed)
    if old is not None and old == new:
        return None
    return FileChange(path, "modified", *counted(old, new))


def counted(old: bytes | None, new: bytes | None) -> tuple[int | None, int | None]:
    """How many lines only the new content has, and how many only the old; None for what is large or no text."""
    if old is None or new is None or max(len(old), len(new)) > MAX_COUNTED_BYTES or b"\0" in old + new:
        return None, None
    before, after = Counter(old.splitlines()), Counter(new.splitlines())
    return (after - before).total(), (before - after).total()


def told_name(roots: Roots, place: Place) -> str:
    """The true name of a place as changes tell it: relative in the workspace, else absolute."""
    inside = place.root.path == roots.workspace
    return str(PurePosixPath(*place.parts)) if inside else str(place.path)


def summed(changes: Sequence[FileChange]) -> tuple[list[FileChange], int]:
    """Each file once, those that came and went left out; and how many more there are than are told."""
    found: dict[str, FileChange] = {}
    for change in changes:
        before = found.pop(change.path, None)
        now = change if before is None else before.then(change)
        if now is not None:
            found[change.path] = now
    told = [change for change in found.values() if len(change.path) <= MAX_PATH_CHARS][:MAX_TOLD]
    return told, len(found) - len(told)
