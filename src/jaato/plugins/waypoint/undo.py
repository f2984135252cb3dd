"""Finds the newest file changes of a session that are in effect, for `/undo`: those since one message of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jaato.abc.store import Damaged
from jaato.protocol.events import Event, MessageUser, ToolCallStart
from jaato.tools.filesystem.backup_directory import Record, id_before
from jaato.tools.waypoints import RESTORING, START, Tree

MAX_LABEL_CHARS = 60


class UndoPoint(NamedTuple):
    """The moment before the newest changes, as a mark in the backups, and the beginning of the message they followed."""

    mark: str
    label: str


class CallGroups(NamedTuple):
    """Which message of the user each call followed, by the call's id, and the beginnings of these messages."""

    followed: Mapping[str, int]
    labels: Sequence[str]


def find_undo_point(records: Sequence[Record], tree: Tree, groups: CallGroups) -> UndoPoint | None:
    """The point before the newest changes that are in effect; None for no changes. `records` are the session's, oldest first.

    Changes belong together if their calls followed the same message of the user. A call of which the log knows nothing is
    taken by itself.
    """
    followed, labels = groups
    live = list_live_changes(records, tree)
    if not live:
        return None
    group = followed.get(live[-1].call_id)
    if group is None:
        first = next(record for record in live if record.call_id == live[-1].call_id)
        return UndoPoint(id_before(first.id), "")
    first = next(record for record in live if followed.get(record.call_id) == group)
    return UndoPoint(id_before(first.id), labels[group])


def find_kept_point(records: Sequence[Record], tree: Tree, groups: CallGroups) -> UndoPoint | None:
    """The point that the last restore went to, where it kept files and nothing has changed since; else None."""
    waypoint = tree.waypoints[tree.current]
    inside = [record for record in records if record.id > waypoint.mark]
    if tree.saved or not inside or inside[-1].action != RESTORING:
        return None
    return UndoPoint(waypoint.mark, groups.labels[groups.followed.get(inside[0].call_id, 0)])


def group_calls(log: Iterable[Event | Damaged]) -> CallGroups:
    """The calls of a session's log, those of subagents and those that compaction has removed from the context among them."""
    followed: dict[str, int] = {}
    labels = [""]
    for event in log:
        match event:
            case MessageUser(message=message) if message.source == "user":
                words = " ".join(message.words.split())
                labels.append(f"{words[:MAX_LABEL_CHARS]}…" if len(words) > MAX_LABEL_CHARS else words)
            case ToolCallStart(call_id=call_id):
                followed[call_id] = len(labels) - 1
    return CallGroups(followed, labels)


def list_live_changes(records: Sequence[Record], tree: Tree) -> Sequence[Record]:
    """The newest changes in effect, oldest first: those since the files stood at a waypoint, else since they stood at the one
    before it, and so on back to the start."""
    waypoint = tree.waypoints[tree.current]
    lower, upper = (tree.mark if tree.saved else waypoint.mark), ""
    while True:
        inside = [record for record in records if lower < record.id and (not upper or record.id <= upper)]
        restores = [place for place, record in enumerate(inside) if record.action == RESTORING]
        live = inside[restores[-1] + 1 :] if restores else inside  # a restore took back those before it
        if live or waypoint.parent is None:
            return live
        # one that undo made is older than the one before it
        upper = min(upper or waypoint.mark, waypoint.mark)
        waypoint = tree.waypoints.get(waypoint.parent, tree.waypoints[START])
        lower = waypoint.mark
