"""The files a call has changed, as an event of its session's log, also where its process died."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.agent.journal import Journal
from jaato.errors import ToolError
from jaato.protocol.events import ToolCallStart, WorkspaceFilesChanged
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call

if TYPE_CHECKING:
    from jaato.tools.files.records import Record


def files_changed(journal: Journal, call: Call) -> list[WorkspaceFilesChanged]:
    """What a call has changed since it was asked last, to be recorded at once; none where nothing was."""
    taken = call.changed[:]
    if not taken:
        return []
    from jaato.tools.files.told import summed

    del call.changed[: len(taken)]  # a worker may add more meanwhile
    files, more = summed(taken)
    if not files and not more:
        return []
    call_id = "" if call.door == "user" else call.id
    return [WorkspaceFilesChanged(**journal.head(), files=files, call_id=call_id, more=more)]


def left_behind(journal: Journal, begun: Sequence[ToolCallStart]) -> None:
    """Record what calls had changed whose process died before they ended, as the backups of the workspace know it. Raises
    `StoreError`."""
    if not begun:
        return
    from jaato.tools.files.backups import Backups
    from jaato.tools.files.records import first_id
    from jaato.tools.files.told import summed

    backups = Backups(Path(journal.state.workspace), max_count=0)
    try:
        records = backups.since(first_id(min(start.timestamp for start in begun)))
    except ToolError:
        return  # the file tools say what is wrong with them
    for start in begun:
        files, more = summed([noted(record) for record in records if record.call_id == start.call_id])
        if files or more:
            journal.record(
                WorkspaceFilesChanged(**journal.head(), files=files, call_id=start.call_id, more=more)
            )


def noted(record: Record) -> FileChange:
    """A change as its record has it: it may be that it was about to happen and did not."""
    from jaato.tools.files.undo import is_moved

    folder = record.before == "directory"
    if is_moved(record) or record.after == "absent" or (folder and record.other is None):
        return FileChange(record.path, "deleted", directory=folder)
    return FileChange(record.path, "created" if record.before == "absent" else "modified")
