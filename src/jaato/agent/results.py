"""Results of calls: streamed output, changed files, and the result as stored, with long ones behind a handle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jaato.agent.event_redaction import redact_bytes, redact_file
from jaato.agent.journal import Journal
from jaato.errors import StoreError, ToolError
from jaato.protocol.codec import encode
from jaato.protocol.events import ToolCallStart, ToolOutput, WorkspaceFilesChanged
from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call, Outcome, Output, replace_surrogates, result_of
from jaato.tools.pipeline import failure_outcome
from jaato.tools.processes.streams import NOT_SHOWN
from jaato.tools.redaction.redactor import StreamRedactor
from jaato.tools.task_records import RecentText

if TYPE_CHECKING:
    from jaato.tools.filesystem.backup_directory import Record

KEPT_CHARS = 64_000
"""Characters of output buffered while the loop is busy; older ones are dropped. The result is not affected."""


class OutputSink:
    """Publishes a tool's output on the loop, batched; may be called with text from any thread.

    Output after the call's end is dropped, unless the call `outlives` its result as a background task.
    """

    outlives = False
    also: Callable[[str], None] | None = None
    _due = _over = False
    _stream: StreamRedactor | None = None

    def __init__(self, journal: Journal, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self._journal = journal
        self._call_id = call_id
        self._loop = loop
        self._lock = threading.Lock()
        self._unsent = RecentText(KEPT_CHARS)

    def __call__(self, text: str) -> None:
        """Show text."""
        if self._over:
            return
        with self._lock:
            if self._stream is None:
                self._stream = self._journal.secrets.stream()
            if text[:3] == "\n[…" and NOT_SHOWN.fullmatch(text):
                self._stream.cut()
            text = self._stream.feed(text)
        self._gather(text)

    def _gather(self, text: str) -> None:
        if not text:
            return
        if self.also is not None:
            self.also(text)
        with self._lock:
            self._unsent.add(text)
            if self._due:
                return
            self._due = True
        try:
            self._loop.call_soon_threadsafe(self.flush)
        except RuntimeError:
            return  # the loop has ended

    def flush(self) -> None:
        """Show what has gathered; on the loop only."""
        with self._lock:
            text, offset = self._unsent.take()
            self._due = False
        if text:
            head = self._journal.shown()
            self._journal.show(
                ToolOutput(**head, call_id=self._call_id, text=replace_surrogates(text), offset=offset)
            )

    def end(self) -> None:
        """Publish the rest of the output; called before the result is recorded."""
        self._over = not self.outlives
        if self._stream is None:
            return  # most calls have no output
        if self._over:
            self._gather(self._stream.end())
        self.flush()


def take_file_changes(journal: Journal, call: Call) -> list[WorkspaceFilesChanged]:
    """Take the file changes of a call since the last time, as events that must be recorded at once."""
    taken = call.changed[:]
    if not taken:
        return []
    from jaato.tools.filesystem.changes import summarize_changes

    del call.changed[: len(taken)]  # a worker may add more meanwhile
    files, more = summarize_changes(taken)
    if not files and not more:
        return []
    call_id = "" if call.caller == "user" else call.id
    return [WorkspaceFilesChanged(**journal.head(), files=files, call_id=call_id, more=more)]


def record_interrupted_changes(journal: Journal, begun: Sequence[ToolCallStart]) -> None:
    """Record the file changes of interrupted calls, from the backups of the workspace. Raises `StoreError`."""
    if not begun:
        return
    from jaato.tools.filesystem.backup_directory import first_id
    from jaato.tools.filesystem.backups import Backups
    from jaato.tools.filesystem.changes import summarize_changes

    backups = Backups(Path(journal.state.workspace), max_count=0)
    try:
        records = backups.since(first_id(min(start.timestamp for start in begun)))
    except ToolError:
        return  # the file tools say what is wrong with them
    for start in begun:
        files, more = summarize_changes(
            [to_file_change(record) for record in records if record.call_id == start.call_id]
        )
        if files or more:
            journal.record(
                WorkspaceFilesChanged(**journal.head(), files=files, call_id=start.call_id, more=more)
            )


def to_file_change(record: Record) -> FileChange:
    """The file change of a backup record; it may not have been carried out."""
    from jaato.tools.filesystem.undo import is_moved

    folder = record.before == "directory"
    if is_moved(record) or record.after == "absent" or (folder and record.other is None):
        return FileChange(record.path, "deleted", directory=folder)
    return FileChange(record.path, "created" if record.before == "absent" else "modified")


RESULT_CHARS = 30_000
"""Characters of a result the model gets at once; the rest is behind its handle."""

ANY_PARTS = (Output, Media)
"""Values whose parts are not validated yet."""


class Results:
    """The results and blobs of one session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def of(self, call: Call, outcome: Outcome) -> ToolResult:
        """Convert an outcome to a result; one that cannot be encoded is an error of the tool. Raises `StoreError`."""
        try:
            result = self.truncate(result_of(call, outcome))
            if not outcome.ok or type(outcome.value) in ANY_PARTS:
                encode(result)  # other values were encoded as they were made text
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 a tool's value may be of any kind and run code of its own
            fault = ToolError(f"{call.name} returned a {type(outcome.value).__name__} that cannot be kept.")
            fault.__cause__ = error
            return result_of(call, failure_outcome(fault, outcome.permission))
        return result

    def keep(self, data: bytes | Path) -> str:
        """Store bytes or a file as a blob of this session, redacted unless binary; returns its handle."""
        store, session_id = self._journal.store, self._journal.state.session_id
        if isinstance(data, bytes):
            return "result:" + store.put_blob(session_id, redact_bytes(data, self._journal.secrets))
        with redact_file(data, self._journal.secrets) as path:
            return "result:" + store.put_blob_file(session_id, path)

    def read(self, handle: str, offset: int, limit: int) -> bytes:
        """Bytes behind a handle of this session."""
        digest = handle.removeprefix("result:")
        return self._journal.store.get_blob(self._journal.state.session_id, digest, offset, limit)

    def truncate(self, result: ToolResult) -> ToolResult:
        """The result with long text cut to head and tail, the whole of it behind a handle. What is cut is masked first:
        a secret does not lie across the cut."""
        if result.error is not None:
            return msgspec.structs.replace(result, error=self._truncate_problem(result.error))
        texts = result.texts
        handle = result.handle
        if isinstance(result.structured, dict) and isinstance(own := result.structured.get("handle"), str):
            handle = handle or own
        if sum(map(len, texts)) <= RESULT_CHARS:
            return result if handle is None else msgspec.structs.replace(result, handle=handle)
        text = self._journal.secrets.mask("\n".join(texts))
        handle = handle or self.keep(text.encode())
        media: list[Text | Media] = [part for part in result.content if not isinstance(part, Text)]
        content: list[Text | Media] = [Text(self._truncate(text, handle)), *media]
        structured = result.structured
        if structured is not None and len(encode(structured)) > RESULT_CHARS:
            structured = None
        return msgspec.structs.replace(result, content=content, handle=handle, structured=structured)

    def _truncate_problem(self, problem: Problem) -> Problem:
        message, traceback = problem.message, problem.traceback
        if len(message) > RESULT_CHARS:
            message = self._journal.secrets.mask(message)
            message = self._truncate(message, self.keep(message.encode()))
        if traceback is not None and len(traceback) > RESULT_CHARS:
            traceback = self._journal.secrets.mask(traceback)[-RESULT_CHARS:]
        return msgspec.structs.replace(problem, message=message, traceback=traceback)

    def _truncate(self, text: str, handle: str) -> str:
        half = RESULT_CHARS // 2
        left_out = len(text) - 2 * half
        note = f'\n… {left_out} characters left out; readFile(path="{handle}") has all of it …\n'
        return text[:half] + note + text[-half:]
