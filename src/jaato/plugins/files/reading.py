"""Reads a file for the model: a window of lines in bounded memory, images as images, binaries by type."""

from __future__ import annotations

import contextlib
import heapq
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from jaato.errors import ToolError
from jaato.plugins.files.diff import make_unified_diff
from jaato.protocol.messages import Media
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call, Output, replace_surrogates
from jaato.tools.filesystem.backup_directory import Record
from jaato.tools.filesystem.changes import Change, Changes, Target
from jaato.tools.filesystem.client_files import MAX_TEXT_BYTES, files_of, read_buffer
from jaato.tools.filesystem.containment import Roots, display_name
from jaato.tools.filesystem.errors import Entry, FileMissing, explain_os_error, kind_of
from jaato.tools.filesystem.text_encoding import Form, NotText, display_text, form_of, newlines_of

DEFAULT_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_TEXT_CHARS = 60_000
MAX_HANDLE_BYTES = 60_000
MAX_IMAGE_BYTES = 5 << 20
MAX_COUNTED_BYTES = 256 << 20
SNIFFED_BYTES = 1 << 16
CHUNK_BYTES = 1 << 18
HANDLE = "result:"

SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x7fELF", "application/x-elf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)


class RangeRefused(ToolError):
    """The file has no such lines."""

    code = "range_refused"


def guess_type(head: bytes, name: str) -> str:
    """The type of a file by its first bytes, else by its name."""
    for signature, mime in SIGNATURES:
        if head.startswith(signature):
            return mime
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    import mimetypes

    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def read_lines(roots: Roots, path: str, offset: int, limit: int | None, call: Call) -> str | Output:
    """The lines of a text file from `offset` (from 1; negative counts from the end), or what the file is.

    Raises `ToolError`s.
    """
    with roots.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(SNIFFED_BYTES)
        name = PurePosixPath(path).name
        try:
            form = form_of(head)
        except NotText:
            return binary_result(file, head, name, size, call)
        if guess_type(head, "") == "application/pdf":
            return binary_result(file, head, name, size, call)
        files = files_of(call)
        if files is not None and size <= MAX_TEXT_BYTES:
            file.seek(len(form.mark))
            data = file.read(MAX_TEXT_BYTES)
            text = data.decode(form.encoding, form.errors)
            with roots.locate(path) as place:
                buffer = read_buffer(files, roots, place, text, form, call.token)
            if buffer is not None and buffer.note:
                data = data if buffer.unsaved is None else buffer.unsaved.encode()
                return f"{show_lines(io.BytesIO(data), form, len(data), path, offset, limit, call)}\n[{buffer.note}]"
        file.seek(len(form.mark))
        return show_lines(file, form, size, path, offset, limit, call)


def show_lines(
    file: BinaryIO, form: Form, size: int, path: str, offset: int, limit: int | None, call: Call
) -> str:
    """The lines of an open file from its position on. Raises `RangeRefused`."""
    if not size:
        return "(the file is empty)"
    window = Window(file, form, size, call)
    try:
        return window.text(path, offset, limit or DEFAULT_LINES)
    finally:
        window.release()


def binary_result(file: BinaryIO, head: bytes, name: str, size: int, call: Call) -> str | Output:
    """The type and size of a binary file; a small image is shown."""
    mime = guess_type(head, name)
    result = f"{name} is {mime}, {size} bytes"
    if mime.startswith("image/") and size <= MAX_IMAGE_BYTES:
        file.seek(0)
        try:
            blob = call.keep(file.read()).removeprefix(HANDLE)
        except LookupError:
            return f"{result}. It cannot be shown here."
        return Output(text=f"{result}.", media=(Media(mime, blob, size, name),))
    return f"{result}. It is not text, so it is not shown; use run with a program that understands it."


class Window:
    """Some lines of an open text file of any size; no more than a chunk of it is in memory."""

    def __init__(self, file: BinaryIO, form: Form, size: int, call: Call) -> None:
        self.form = form
        self.size = size
        self.call = call
        self.file = file
        wide = form.encoding.startswith("utf-16")
        self.lines: io.TextIOWrapper | BinaryIO = (
            io.TextIOWrapper(file, encoding=form.encoding, errors="replace", newline="\n") if wide else file
        )

    def release(self) -> None:
        """Detach the decoder, so that the caller can close the file."""
        if isinstance(self.lines, io.TextIOWrapper):
            self.lines.detach()

    def text(self, path: str, offset: int, limit: int) -> str:
        """The lines with a trailer that says which they are and how many follow."""
        if offset < 0:
            start = self.lines.tell()
            total = self.count_rest()
            if total is None:
                raise RangeRefused(
                    f"{path!r} has {self.size} bytes, too many to count its lines; use run with tail."
                )
            offset = max(1, total + offset + 1)
            self.lines.seek(start)
        offset = max(1, offset)
        skipped = self.skip(offset - 1)
        if skipped < offset - 1:
            raise RangeRefused(f"{path!r} has {skipped} lines; offset {offset} is behind the last one.")
        shown_lines: list[str] = []
        chars, long = 0, 0
        line: str | None = None
        while len(shown_lines) < limit and chars < MAX_TEXT_CHARS:
            self.call.token.raise_if_cancelled()
            line = self.next_line()
            if line is None:
                break
            long += line[MAX_LINE_CHARS : MAX_LINE_CHARS + 1] == "…"
            shown_lines.append(line)
            chars += len(line)
        if not shown_lines and offset > 1:
            raise RangeRefused(f"{path!r} has {skipped} lines; offset {offset} is behind the last one.")
        return "".join(shown_lines) + self.trailer(offset, len(shown_lines), line is None, long)

    def trailer(self, offset: int, count: int, ended: bool, long: int) -> str:
        """A note about the lines not shown and unusual encodings; empty when there is nothing to note."""
        notes: list[str] = []
        last = offset + count - 1
        rest = 0 if ended else self.count_rest()
        if rest:
            notes.append(
                f"lines {offset}-{last} of {last + rest}; {rest} more, read on with offset={last + 1}"
            )
        elif rest is None:
            notes.append(f"lines {offset}-{last} of {self.size} bytes; read on with offset={last + 1}")
        elif offset > 1:
            notes.append(f"lines {offset}-{last}, the last ones")
        if long:
            notes.append(f"{long} long lines are cut at {MAX_LINE_CHARS} characters")
        if self.form != Form():
            notes.append(self.form.name)
        return f"\n[{'; '.join(notes)}]" if notes else ""

    def next_line(self) -> str | None:
        """The next line as shown, cut when it is long; None at the end."""
        piece = self.lines.readline(4 * MAX_LINE_CHARS)
        if not piece:
            return None
        text = piece if isinstance(piece, str) else piece.decode(self.form.encoding, "replace")
        if text.endswith("\n"):
            text = display_text(text)
            return text if len(text) <= MAX_LINE_CHARS + 1 else f"{text[:MAX_LINE_CHARS]}…\n"
        while piece and not ends_line(piece):
            self.call.token.raise_if_cancelled()
            piece = self.lines.readline(CHUNK_BYTES)
        text = replace_surrogates(text)
        if len(text) <= MAX_LINE_CHARS:
            return text
        return f"{text[:MAX_LINE_CHARS]}…" + ("\n" if piece else "")

    def skip(self, count: int) -> int:
        """Pass lines without keeping them; returns how many there were."""
        if not isinstance(self.lines, io.TextIOWrapper):
            return skip_lines(self.file, count, self.call)
        passed = 0
        while passed < count:
            piece = self.lines.readline(CHUNK_BYTES)
            if not piece:
                return passed
            if passed % 1024 == 0:
                self.call.token.raise_if_cancelled()
            while piece and not ends_line(piece):
                piece = self.lines.readline(CHUNK_BYTES)
            passed += 1
        return passed

    def count_rest(self) -> int | None:
        """How many lines follow, or None when the file is too large to count them."""
        if self.size > MAX_COUNTED_BYTES:
            return None if self.file.tell() < self.size else 0
        count, last = 0, ""
        while piece := self.lines.read(CHUNK_BYTES):
            self.call.token.raise_if_cancelled()
            count += piece.count("\n") if isinstance(piece, str) else piece.count(b"\n")
            last = "\n" if ends_line(piece) else "x"
        return count + (last == "x")


def skip_lines(file: BinaryIO, count: int, call: Call) -> int:
    """Pass lines of a file by counting their ends; returns how many there were."""
    passed, last = 0, b"\n"
    while passed < count:
        call.token.raise_if_cancelled()
        start = file.tell()
        chunk = file.read(CHUNK_BYTES)
        if not chunk:
            return passed + (last != b"\n")
        found = chunk.count(b"\n")
        if passed + found >= count:
            place = -1
            for _ in range(count - passed):
                place = chunk.find(b"\n", place + 1)
            file.seek(start + place + 1)
            return count
        passed, last = passed + found, chunk[-1:]
    return passed


def ends_line(piece: str | bytes) -> bool:
    """Whether a piece ends a line."""
    return piece.endswith("\n") if isinstance(piece, str) else piece.endswith(b"\n")


def read_handle(handle: str, offset: int, limit: int | None, call: Call) -> str:
    """Bytes of an earlier result from `offset` (from 0), as text. Raises `FileMissing` if it is unknown."""
    size = min(limit or MAX_HANDLE_BYTES, MAX_HANDLE_BYTES)
    start = max(0, offset)
    try:
        data = call.read_handle(handle, start, size + 1)
    except LookupError:
        raise FileMissing(
            f"{handle!r} is no result of this session. Use a handle that a tool gave you."
        ) from None
    more = len(data) > size
    data = data[:size]
    if more:
        data = trim_partial_character(data)
    if not data:
        return f"(nothing at byte {start}; the result ends before)" if start else "(the result is empty)"
    trailer = (
        f"\n[bytes {start}-{start + len(data) - 1}; more follow, read on with offset={start + len(data)}]"
    )
    return data.decode("utf-8", "replace") + (trailer if more else "")


def trim_partial_character(data: bytes) -> bytes:
    """UTF-8 without a character that was cut at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
        if byte < 0x80:
            break
    return data


def describe(roots: Roots, path: str) -> dict[str, str | int]:
    """Type, encoding and line ends of a regular file, by its first bytes."""
    with roots.open_file(path) as file:
        head = file.read(SNIFFED_BYTES)
    found: dict[str, str | int] = {"mime_type": guess_type(head, PurePosixPath(path).name)}
    try:
        form = form_of(head)
    except NotText:
        return found
    if found["mime_type"] == "application/octet-stream":
        found["mime_type"] = "text/plain"
    found["encoding"] = form.name
    found["line_ends"] = newlines_of(head.decode(form.encoding, "replace"))
    return found


MAX_DIFF_BYTES = 8 << 20
MAX_LISTED = 2000


def remove_directory(changes: Changes, target: Target, call: Call) -> dict[str, Any]:
    """Remove an empty directory."""
    mode = stat.S_IMODE(target.info.st_mode)
    record = Record.new(target.label, "removeFile", call, "directory", mode=mode)
    with changes.backups.open() as dirs:
        record = changes.backups.record(dirs, record)
        try:
            os.rmdir(target.place.name, dir_fd=target.place.dir_fd)
        except OSError as error:
            changes.backups.forget(dirs, record)
            raise explain_os_error(error, target.path) from None
    call.changed.append(FileChange(target.label, "deleted", directory=True))
    return {"path": target.label, "backup_id": record.id}


def list_directory(roots: Roots, path: str, offset: int, limit: int) -> Output:
    """The entries of a directory, as lines and as data; of a huge one only the part asked for is held."""
    total = 0

    def count_entries() -> Iterator[Entry]:
        nonlocal total
        for entry in roots.scan(path):
            total += 1
            yield entry

    until = offset + min(limit, MAX_LISTED)
    chosen = heapq.nsmallest(until, count_entries(), key=lambda entry: entry.name)[offset:]
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
    name = display_name(entry.name)
    match entry.kind:
        case "directory":
            return f"{name}/"
        case "file":
            return f"{name} {sizes.get(entry.name, '')}"
        case kind:
            return f"{name} ({kind if kind == 'link' else 'special'})"


def file_info(roots: Roots, path: str) -> dict[str, Any]:
    """The metadata of a path."""
    own = roots.stat(path, follow=False)
    result: dict[str, Any] = {"path": path, "kind": kind_of(own.st_mode)}
    if stat.S_ISLNK(own.st_mode):
        with roots.locate(path, follow=False) as place:
            result["link_to"] = os.readlink(place.name, dir_fd=place.dir_fd)
        with roots.locate(path) as place:
            if place.info is None:
                return {**result, "target": "missing"}
            own = place.info
            result |= {"real_path": str(place.path), "target": kind_of(own.st_mode)}
    result |= {
        "size_bytes": own.st_size,
        "mode": f"{stat.S_IMODE(own.st_mode):04o}",
        "owner": f"{own.st_uid}:{own.st_gid}",
        "modified": datetime.fromtimestamp(own.st_mtime, UTC).isoformat(timespec="seconds"),
    }
    if stat.S_ISREG(own.st_mode):
        result |= {"hard_links": own.st_nlink, **describe(roots, path)}
    if roots.is_control(path):
        result["protected"] = True
    return result


def change_diff(change: Change) -> str:
    """The difference a restored content makes, where both sides are text."""
    before = change.seen.data if change.seen is not None else b""
    after = change.content if isinstance(change.content, bytes) else b""
    if before is None or len(before) + len(after) > MAX_DIFF_BYTES:
        return ""
    try:
        return make_unified_diff(form_of(before).decode(before), form_of(after).decode(after))
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
            records = changes.backups.records(changes.roots.label(place))
    return {"total": len(records), "backups": [backup_row(record) for record in records[:limit]]}


def backup_row(record: Record) -> dict[str, Any]:
    """One backup as the model sees it."""
    result: dict[str, Any] = {
        "backup_id": record.id,
        "path": record.path,
        "before": record.action,
        "time": datetime.fromtimestamp(record.time, UTC).isoformat(timespec="seconds"),
        "held": record.before,
    }
    if record.digest:
        result["size_bytes"] = record.size_bytes
    if record.other:
        result["moved" + ("_from" if record.before == "absent" or record.digest else "_to")] = record.other
    return result
