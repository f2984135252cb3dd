"""Taking back the sets of changes that a killed process has left half done, so that all or none have happened."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.errors import ToolError
from jaato.tools.call import Call
from jaato.tools.files.changes import Changes
from jaato.tools.files.records import Record
from jaato.tools.files.undo import current, exists, is_moved, move_back, restore


def recover(changes: Changes) -> None:
    """Put back every file that such a set has changed, unless somebody has changed it since."""
    for name, records in sorted(changes.backups.unfinished().items(), reverse=True):
        take_back_all(changes, records, name)
        with changes.backups.open() as shelf:
            changes.backups.end(shelf, name)


def take_back_all(changes: Changes, records: Sequence[Record], name: str) -> list[str]:
    """Put back what of a set has appeared, last first: files, and then what was moved before them. Gives what could not
    be, with the reasons; their backups stay, for restoreFile. Of a set that is gone without a trace nothing does."""
    stuck: list[str] = []
    whole = all(record.batch for record in records)
    moves = [record for record in records if is_moved(record)]
    moved = [record for record in moves if is_in_effect(changes, record)]
    if len(moved) == len(moves):  # else no file has appeared yet
        for record in reversed([record for record in records if not is_moved(record)]):
            try:
                whole = take_back(changes, record, name) and whole
            except ToolError as error:
                stuck.append(f"{record.path!r} (backup {record.id}): {error}")
    for record in reversed(moved):
        try:
            move_back(changes, record, call_of(record, name))
        except ToolError as error:
            stuck.append(f"{record.other!r}: {error}")
    if whole and not stuck:
        with changes.backups.open() as shelf:
            changes.backups.forget_set(shelf, name)
    return stuck


def take_back(changes: Changes, record: Record, name: str) -> bool:
    """Put one file back if it is exactly what the set has made of it, or away to make room for a link; whether it is as it
    was before."""
    if record.after in (None, record.held):
        return True
    with changes.lock:
        now = current(changes, record.path)
        if now == record.after or (now == "absent" and str(record.after).startswith("link:")):
            restore(changes, record, call_of(record, name), "recovery")
            return True
    return now == record.held


def is_in_effect(changes: Changes, record: Record) -> bool:
    """Whether what a record says was moved is where it was moved to."""
    return exists(changes, record.other or "") and not exists(changes, record.path)


def call_of(record: Record, name: str) -> Call:
    """In whose name something is taken back: that of its session, under the name of the set."""
    return Call(name, "recovery", {}, session_id=record.session_id)
