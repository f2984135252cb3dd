"""Taking back the sets of changes that a killed process has left half done, so that all or none have happened."""

from __future__ import annotations

from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.files.changes import Changes
from jaato.tools.files.records import Record
from jaato.tools.files.undo import current, restore


def recover(changes: Changes) -> None:
    """Put back every file that such a set has changed, unless somebody has changed it since."""
    for name, records in changes.backups.unfinished().items():
        for record in records:
            try:
                take_back(changes, record)
            except ToolError:
                continue  # its backup stays, for restoreFile
        with changes.backups.open() as shelf:
            changes.backups.end(shelf, name)


def take_back(changes: Changes, record: Record) -> None:
    """Put one file back if it is exactly what the set has made of it."""
    if record.after in (None, record.held):
        return
    with changes.lock:
        if current(changes, record.path) == record.after:
            restore(changes, record, Call(record.call_id, "recovery", {}), "recovery")
