"""Lists directories, file information and backups for the tools."""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from jaato.plugins.files.diff import unified_diff
from jaato.plugins.files.reading import describe
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call, Output
from jaato.tools.filesystem.containment import Roots, shown_name
from jaato.tools.filesystem.edits.backup_directory import Record
from jaato.tools.filesystem.edits.changes import Change, Changes, Target
from jaato.tools.filesystem.edits.text_encoding import NotText, form_of
from jaato.tools.filesystem.errors import Entry, explain_os_error, kind_of

MAX_DIFF_BYTES = 8 << 20
MAX_LISTED = 2000


def is_directory(info: os.stat_result) -> bool:
    """Whether it is a directory."""
    return stat.S_ISDIR(info.st_mode)


def remove_directory(changes: Changes, target: Target, call: Call) -> dict[str, Any]:
    """Remove an empty directory."""
    record = Record(
        id="",
        path=target.label,
        action="removeFile",
        time=0.0,
        before="directory",
        mode=stat.S_IMODE(target.info.st_mode),
        call_id=call.id,
        session_id=call.session_id,
    )
    with changes.backups.open() as shelf:
        record = changes.backups.record(shelf, record)
        try:
            os.rmdir(target.place.name, dir_fd=target.place.dir_fd)
        except OSError as error:
            changes.backups.forget(shelf, record)
            raise explain_os_error(error, target.path) from None
    call.changed.append(FileChange(target.label, "deleted", directory=True))
    return {"path": target.label, "backup_id": record.id}


def list_directory(roots: Roots, path: str, offset: int, limit: int) -> Output:
    """The entries of a directory, as lines and as data; of a huge one only the part asked for is held."""
    total = 0

    def counted() -> Iterator[Entry]:
        nonlocal total
        for entry in roots.scan(path):
            total += 1
            yield entry

    until = offset + min(limit, MAX_LISTED)
    chosen = heapq.nsmallest(until, counted(), key=lambda entry: entry.name)[offset:]
    sizes = sizes_of(roots, path, chosen)
    lines = [line_of(entry, sizes) for entry in chosen]
    rest = total - offset - len(chosen)
    if rest > 0:
        lines.append(f"[{rest} more; read on with offset={offset + len(chosen)}]")
    data = {
        "path": path,
        "total": total,
        "entries": [
            {"name": entry.name, "kind": entry.kind, "size_bytes": sizes.get(entry.name, 0)}
            for entry in chosen
        ],
    }
    if total and not lines:
        lines.append(f"(nothing from offset {offset} on; there are {total} entries)")
    return Output(text="\n".join(lines) or "(empty)", structured=data)


def sizes_of(roots: Roots, path: str, entries: Iterable[Entry]) -> dict[str, int]:
    """The sizes of the files among some entries of a directory; those gone meanwhile have none."""
    sizes: dict[str, int] = {}
    fd = roots.open_dir(path)
    try:
        for entry in entries:
            with contextlib.suppress(OSError):
                sizes[entry.name] = os.stat(entry.name, dir_fd=fd, follow_symlinks=False).st_size
    finally:
        os.close(fd)
    return sizes


def line_of(entry: Entry, sizes: Mapping[str, int]) -> str:
    """One entry as a line."""
    name = shown_name(entry.name)
    match entry.kind:
        case "directory":
            return f"{name}/"
        case "file":
            return f"{name} {sizes.get(entry.name, '')}"
        case kind:
            return f"{name} ({kind if kind == 'link' else 'special'})"


def file_info(roots: Roots, path: str) -> dict[str, Any]:
    """What is known of a path."""
    own = roots.stat(path, follow=False)
    said: dict[str, Any] = {"path": path, "kind": kind_of(own.st_mode)}
    if stat.S_ISLNK(own.st_mode):
        with roots.locate(path, follow=False) as place:
            said["link_to"] = os.readlink(place.name, dir_fd=place.dir_fd)
        with roots.locate(path) as place:
            if place.info is None:
                return {**said, "target": "missing"}
            own = place.info
            said |= {"real_path": str(place.path), "target": kind_of(own.st_mode)}
    said |= {
        "size_bytes": own.st_size,
        "mode": f"{stat.S_IMODE(own.st_mode):04o}",
        "owner": f"{own.st_uid}:{own.st_gid}",
        "modified": datetime.fromtimestamp(own.st_mtime, UTC).isoformat(timespec="seconds"),
    }
    if stat.S_ISREG(own.st_mode):
        said |= {"hard_links": own.st_nlink, **describe(roots, path)}
    if roots.is_control(path):
        said["protected"] = True
    return said


def change_diff(change: Change) -> str:
    """The difference a restored content makes, where both sides are text."""
    before = change.seen.data if change.seen is not None else b""
    after = change.content if isinstance(change.content, bytes) else b""
    if before is None or len(before) + len(after) > MAX_DIFF_BYTES:
        return ""
    try:
        return unified_diff(form_of(before).decode(before), form_of(after).decode(after))
    except NotText:
        return f"binary: {len(before)} → {len(after)} bytes"


def list_backups(changes: Changes, path: str | None, limit: int) -> dict[str, Any]:
    """The backups of a path, or of all, newest first."""
    label = None
    if path is not None:
        root, rest = changes.roots.relative(path)
        label = str(rest) if root == changes.roots.workspace else str(root / rest)
    records = changes.backups.records(label)
    if label is not None and not records:
        with changes.roots.locate(path or "") as place:
            records = changes.backups.records(changes.label(place))
    return {"total": len(records), "backups": [backup_row(record) for record in records[:limit]]}


def backup_row(record: Record) -> dict[str, Any]:
    """One backup as the model sees it."""
    said: dict[str, Any] = {
        "backup_id": record.id,
        "path": record.path,
        "before": record.action,
        "time": datetime.fromtimestamp(record.time, UTC).isoformat(timespec="seconds"),
        "held": record.before,
    }
    if record.digest:
        said["size_bytes"] = record.size_bytes
    if record.other:
        said["moved" + ("_from" if record.before == "absent" or record.digest else "_to")] = record.other
    return said
