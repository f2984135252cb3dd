"""Finds the newest file changes of a session that are in effect, for `/undo`: those since one message of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jaato.protocol.messages import Message
from jaato.tools.filesystem.backup_directory import Record, id_before
from jaato.tools.waypoints import RESTORING, START, Tree

MAX_LABEL_CHARS = 60


class UndoPoint(NamedTuple):
    """The moment before the newest changes, as a mark in the backups, and the beginning of the message they followed."""

    mark: str
    label: str


def find_undo_point(records: Sequence[Record], tree: Tree, messages: Iterable[Message]) -> UndoPoint | None:
    """The point before the newest changes that are in effect; None for no changes. `records` are the session's, oldest first.

    Changes belong together if their calls followed the same message of the user. A call of which the messages know nothing,
    such as one of a subagent, is taken by itself.
    """
    followed, labels = group_calls(messages)
    live = list_live_changes(records, tree)
    if not live:
        return None
    group = followed.get(live[-1].call_id)
    if group is None:
        first = next(record for record in live if record.call_id == live[-1].call_id)
        return UndoPoint(id_before(first.id), "")
    first = next(record for record in live if followed.get(record.call_id) == group)
    return UndoPoint(id_before(first.id), labels[group])


def find_kept_point(records: Sequence[Record], tree: Tree, messages: Iterable[Message]) -> UndoPoint | None:
    """The point that the last restore went to, where it kept files and nothing has changed since; else None."""
    waypoint = tree.waypoints[tree.current]
    inside = [record for record in records if record.id > waypoint.mark]
    if tree.saved or not inside or inside[-1].action != RESTORING:
        return None
    followed, labels = group_calls(messages)
    return UndoPoint(waypoint.mark, labels[followed.get(inside[0].call_id, 0)])


def group_calls(messages: Iterable[Message]) -> tuple[Mapping[str, int], Sequence[str]]:
    """Which message of the user each call followed, by the call's id, and the beginnings of these messages."""
    followed: dict[str, int] = {}
    labels = [""]
    for message in messages:
        if message.role == "user" and message.source == "user":
            words = " ".join(message.words.split())
            labels.append(f"{words[:MAX_LABEL_CHARS]}…" if len(words) > MAX_LABEL_CHARS else words)
        followed |= dict.fromkeys((call.id for call in message.function_calls), len(labels) - 1)
    return followed, labels


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
