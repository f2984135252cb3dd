"""Waypoints of a session as a tree: how each event changes it, and who may restore or delete one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from jaato.protocol.specs import Owner, Waypoint
from jaato.tools.permissions.decision import Verdict

if TYPE_CHECKING:
    from jaato.tools.call import Call

START = "w0"
RESTORING = "restore_waypoint"
Action = Literal["created", "restored", "deleted"]
OWNED = "{id} is a waypoint of the user, who is asked each time before the files go back to it"


def beginning(created_at: str = "") -> Waypoint:
    """The waypoint every session begins with."""
    return Waypoint(START, "session start", "user", created_at=created_at)


class Tree(msgspec.Struct):
    """Every waypoint by id, and where the session stands. Only `apply` changes it.

    `mark` is the moment in the backups at which the files were as they are at `current`; `saved` says that they were.
    """

    waypoints: dict[str, Waypoint] = msgspec.field(default_factory=lambda: {START: beginning()})
    current: str = START
    mark: str = ""
    saved: bool = True
    last_number: int = 0

    def begin(self, created_at: str) -> None:
        """The session begins at this moment."""
        self.waypoints[START] = beginning(created_at)

    def apply(self, action: Action, waypoint: Waypoint, current: str, mark: str, saved: bool) -> None:
        """Take one change in."""
        match action:
            case "created":
                self.waypoints[waypoint.id] = waypoint
                if waypoint.id[1:].isdecimal():
                    self.last_number = max(self.last_number, int(waypoint.id[1:]))
            case "deleted" if waypoint.id != START:
                gone = self.waypoints.pop(waypoint.id, waypoint)
                for other in list(self.waypoints.values()):
                    if other.parent == gone.id:
                        above = msgspec.structs.replace(other, parent=gone.parent)
                        self.waypoints[other.id] = above
        self.current = current if current in self.waypoints else START
        self.mark, self.saved = mark, saved

    @property
    def next_id(self) -> str:
        """The id of the next waypoint; none is ever given twice."""
        return f"w{self.last_number + 1}"

    def without(self, waypoint_id: str) -> tuple[str, bool]:
        """Where the session stands once a waypoint is gone, and whether its files are as they are there."""
        if self.current != waypoint_id:
            return self.current, self.saved
        return self.waypoints[waypoint_id].parent or START, False

    def children(self, waypoint_id: str) -> list[Waypoint]:
        """The waypoints that went on from one, oldest first."""
        found = [one for one in self.waypoints.values() if one.parent == waypoint_id]
        return sorted(found, key=lambda one: int(one.id[1:]) if one.id[1:].isdecimal() else 0)


class WaypointLog(Protocol):
    """Where waypoints are kept: a session folds them from its log and logs each change."""

    @property
    def tree(self) -> Tree: ...

    def create(self, description: str, owner: Owner, mark: str, *, ceiling: bool = False) -> Waypoint: ...

    def stand(self, waypoint_id: str, mark: str, saved: bool) -> None: ...

    def delete(self, waypoint_id: str) -> None: ...


def evaluate_restore(call: Call) -> Verdict | None:
    """The permission verdict on restoring a waypoint, by its owner; None where the usual rules decide.

    A look at what would change is free. The model's own waypoints are the model's; about a user's the user is asked,
    whatever was allowed before.
    """
    log: WaypointLog | None = call.services.get("waypoints")
    if log is None:
        return None
    found = log.tree.waypoints.get(waypoint_key(call.arguments.get("waypoint_id")))
    if found is not None and found.owner == "user":
        return Verdict("ask", "owner", OWNED.format(id=found.id), None, lasting=False)
    return Verdict("allow", "owner", "the waypoint is the model's own")


def previews(call: Call) -> bool:
    """Whether a call of restore_waypoint only shows what it would do."""
    return call.arguments.get("dry_run") is True


def waypoint_key(given: object) -> str:
    """An id as it is kept."""
    return given.strip().lower() if isinstance(given, str) else ""
