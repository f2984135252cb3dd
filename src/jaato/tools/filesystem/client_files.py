"""Text files that a client of the session serves: what its unsaved buffers hold, and writing through it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.atomic import read_at
from jaato.tools.filesystem.atomic_replace import FileState, refuse_changed
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.errors import FileFailed, explain_os_error
from jaato.tools.filesystem.safe_open import ResolvedPath
from jaato.tools.filesystem.text_encoding import ODD, Form, NormalizedText, NotText, form_of

MAX_TEXT_BYTES = 4 << 20
"""How large a text may be that is read from a client or written by it; larger files are read from and written to the disk."""
MAX_SYNCED = 10_000


class ClientProblem(Exception):
    """Why a client did not do what it was asked for. `has_answered`: it refused; else it failed to answer properly."""

    def __init__(self, text: str, *, has_answered: bool = False) -> None:
        super().__init__(text)
        self.has_answered = has_answered


class ClientFiles(Protocol):
    """The files that clients of a session serve. Its methods are for worker threads; paths are relative to the workspace, or
    absolute, and were resolved by the caller."""

    synced: dict[str, int]
    """By path, the hash of the text that the client and the disk had in common last, line ends aside."""

    @property
    def is_served(self) -> bool:
        """Whether a client serves files now."""
        ...

    @property
    def can_write(self) -> bool:
        """Whether it writes them, too."""
        ...

    def is_writing(self, path: str) -> bool:
        """Whether a client may still write a file though its deadline has passed."""
        ...

    def read(self, path: str, token: CancelToken) -> str:
        """The text of a file, unsaved changes included. Raises `ClientProblem`, `CancelledException`."""
        ...

    def write(self, path: str, text: str) -> None:
        """Have a file written and saved. Raises `ClientProblem`."""
        ...


@dataclass(frozen=True, slots=True)
class Buffer:
    """A text file as a client serves it beside the disk: `raw` is its text as it was given, None where it gave none."""

    files: ClientFiles
    raw: str | None = None
    note: str = ""
    """What the caller of a tool is to know of it."""
    unsaved: str | None = None
    """The text in the form of the file on the disk, where it differs from that; None where nothing is unsaved."""
    plain_newlines: bool = False
    """Whether the client gives the file's CRLF line ends as LF, and is to be given them so."""

    @property
    def can_write(self) -> bool:
        """Whether the client is to write the file."""
        return self.raw is not None and self.files.can_write

    def note_disk_written(self, path: str) -> None:
        """Note that the disk has a change of this text that the client has not written, and has yet to load."""
        if self.raw is not None:
            note_synced(self.files, path, self.raw.removeprefix("\ufeff"))


def served_files(services: Any) -> ClientFiles | None:
    """The files that a client serves to a session with these services; None where no client does."""
    files: ClientFiles | None = services.get("client_files")
    return files if files is not None and files.is_served else None


def files_of(call: Call) -> ClientFiles | None:
    """The files that a client serves to the session of a call; None where no client does."""
    return served_files(call.services)


def read_buffer(
    files: ClientFiles, roots: Roots, place: ResolvedPath, disk: str, form: Form, token: CancelToken
) -> Buffer | None:
    """What a client has of a file whose text on the disk is `disk`; None where it is not asked: for a file that is large, or
    not plain UTF-8, so that a client could give its bytes back wrongly. Raises `FileChanged` where the path leads elsewhere
    meanwhile."""
    if form != Form() or len(disk) > MAX_TEXT_BYTES or ODD.search(disk):
        return None
    path = roots.label(place)
    try:
        raw = files.read(path, token)
    except ClientProblem as problem:
        return Buffer(files, note="" if problem.has_answered else f"from the disk: {problem}")
    if not leads_to(roots, path, place):
        raise refuse_changed(path)
    lined = NormalizedText(disk)
    given = raw.removeprefix("\ufeff").replace("\r\n", "\n")
    plain = bool(lined.returns) and "\r\n" not in raw
    if given == lined.view:
        note_synced(files, path, given)
        return Buffer(files, raw, plain_newlines=plain)
    if files.synced.get(path) == hash(given):  # nothing is unsaved: the disk has changed since
        return Buffer(
            files, note="from the disk: the client has not loaded the file again since it has changed"
        )
    unsaved = lined.replace(0, len(lined.view), given) if plain else raw.removeprefix("\ufeff")
    note = (
        "unsaved text of the client, which differs from the file on the disk that commands and searches see"
    )
    return Buffer(files, raw, note, unsaved, plain)


def leads_to(roots: Roots, path: str, place: ResolvedPath) -> bool:
    """Whether a path still leads to a place without a link: a client goes by the name."""
    try:
        with roots.locate(path, follow=False) as now:
            same = os.path.samestat(os.fstat(now.dir_fd), os.fstat(place.dir_fd))
            return same and now.name == place.name and not (now.info and stat.S_ISLNK(now.info.st_mode))
    except ToolError:
        return False


def note_synced(files: ClientFiles, path: str, text: str) -> None:
    """Note that a client and the disk have the same text of a file."""
    files.synced.pop(path, None)
    files.synced[path] = hash(text.replace("\r\n", "\n"))
    if len(files.synced) > MAX_SYNCED:
        del files.synced[next(iter(files.synced))]


def check_no_buffer(files: ClientFiles, path: str, token: CancelToken) -> Buffer:
    """The buffer of a file that is not on the disk. Raises `UnsavedFile` where a client has text for it."""
    try:
        raw = files.read(path, token)
    except ClientProblem as problem:
        if not problem.has_answered:
            return Buffer(files, note=f"written to the disk: {problem}")
        return Buffer(files, "")
    if raw and files.synced.get(path) != hash(raw.removeprefix("\ufeff").replace("\r\n", "\n")):
        raise UnsavedFile(
            f"{path!r} is not on the disk, and the client has unsaved text for it.",
            ask="save it, or choose another name.",
        )
    return Buffer(files, raw)


class UnsavedFile(ToolError):
    """A change on the disk would collide with text that a client has not saved, or is about to save."""

    code = "file_unsaved"


def refuse_unsaved(
    call: Call, roots: Roots, place: ResolvedPath, seen: FileState | None, buffer: Buffer | None = None
) -> None:
    """Refuse to change a file while a client may still write it, or has unsaved text for it that the change does not know: an
    edit knows it by its `buffer`. Raises `UnsavedFile`."""
    files = files_of(call)
    if files is None:
        return
    label = roots.label(place)
    if files.is_writing(label):
        raise UnsavedFile(
            f"The client was to write {label!r}, has not answered in time and may still write it, over any later change. "
            "Nothing was changed.",
            ask="look at the editor; this is possible once it has answered or left.",
        )
    if buffer is not None:
        return
    if seen is None:
        check_no_buffer(files, label, call.token)
    elif seen.data is not None and len(seen.data) <= MAX_TEXT_BYTES:
        try:
            form = form_of(seen.data)
            found = read_buffer(files, roots, place, form.decode(seen.data), form, call.token)
        except NotText:
            return
        if found is not None and found.unsaved is not None:
            raise UnsavedFile(
                f"The client has unsaved text for {label!r}, which differs from the file on the disk. Nothing was changed.",
                ask="save or discard it; edits such as updateFile include it.",
            )


class Written(NamedTuple):
    """What a file is after a client was to write it. `done`: it has the new text; else it is as it was, and the disk is to be
    written."""

    state: FileState | None
    done: bool
    note: str = ""


def write_by_client(
    buffer: Buffer,
    roots: Roots,
    place: ResolvedPath,
    seen: FileState | None,
    content: bytes,
    token: CancelToken,
) -> Written:
    """Have a client write and save a file, and look at the disk afterwards. Raises `FileChanged` where the file or the buffer
    is not as it was read any more, or the path leads elsewhere, and `FileFailed` where the client failed and left other
    text."""
    files, label = buffer.files, roots.label(place)
    try:
        unchanged = files.read(label, token) == buffer.raw
    except ClientProblem as problem:
        if not (seen is None and problem.has_answered):
            return Written(seen, False, f"written to the disk: {problem}")
        unchanged = True  # it is as new to the client as it was
    # last, as the client may have taken long, and what it replaces is in no backup
    same = state_at(place, label) is None if seen is None else seen.is_at(place.dir_fd, place.name)
    if not (unchanged and same and leads_to(roots, label, place)):
        raise refuse_changed(label)
    text = content.decode()
    failure = ""
    try:
        files.write(label, text.replace("\r\n", "\n") if buffer.plain_newlines else text)
    except ClientProblem as problem:
        failure = str(problem)
    now = state_at(place, label)
    if now is not None and now.data == content:
        if not failure:
            note_synced(files, label, text)
        return Written(now, True)
    if (now is None) if seen is None else (now is not None and now.data == seen.data):
        return Written(now, False, f"written to the disk: {failure or 'the client has not saved it'}")
    if failure or now is None:
        reason = failure or "it removed the file"
        raise FileFailed(
            f"The client that was to write {label!r} failed: {reason}. The file has other text than it was to have; "
            "what it held before, and what was unsaved, is in listBackups."
        )
    return Written(
        now,
        True,
        "the client has saved other text than it was given, as editors do that format; read it again",
    )


def state_at(place: ResolvedPath, label: str) -> FileState | None:
    """The regular file at a place as it is now; None where there is none. Raises `ToolError`."""
    try:
        data = read_at(place.dir_fd, place.name, 2 * MAX_TEXT_BYTES)
        return FileState(os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False), data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain_os_error(error, label) from None
