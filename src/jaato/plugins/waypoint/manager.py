"""Waypoints for a program without a session: the same tree and the same care, called directly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from jaato.plugins.waypoint.course import Course, Restored
from jaato.protocol.events import now
from jaato.protocol.specs import Owner, Waypoint
from jaato.tools.call import Call
from jaato.tools.files.backups import Backups
from jaato.tools.files.changes import Changes
from jaato.tools.paths import Roots
from jaato.tools.waypoints import Action, Tree

T = TypeVar("T")


class KeptWaypoints:
    """Waypoints in memory, for calls without a session."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.tree.begin(now())

    def create(self, description: str, owner: Owner, mark: str, *, ceiling: bool = False) -> Waypoint:
        """Make one, which is then the current one."""
        tree = self.tree
        made = Waypoint(tree.next_id, description, owner, tree.current, now(), mark=mark, ceiling=ceiling)
        self._note("created", made, made.id, mark, True)
        return made

    def stand(self, waypoint_id: str, mark: str, saved: bool) -> None:
        """Note that the files went back to one."""
        self._note("restored", self.tree.waypoints[waypoint_id], waypoint_id, mark, saved)

    def delete(self, waypoint_id: str) -> None:
        """Forget one."""
        current, saved = self.tree.without(waypoint_id)
        self._note("deleted", self.tree.waypoints[waypoint_id], current, self.tree.mark, saved)

    def _note(self, action: Action, waypoint: Waypoint, current: str, mark: str, saved: bool) -> None:
        self.tree.apply(action, waypoint, current, mark, saved)


class WaypointManager:
    """The waypoints of a workspace, for the changes that were made under this session id. Raises `ToolError`s."""

    def __init__(self, workspace: str | Path, session_id: str = "") -> None:
        self._session_id = session_id
        self._book = KeptWaypoints()
        self._changes = Changes(Roots(Path(workspace)), Backups(Path(workspace), max_count=0))
        self._course = Course(self._changes, self._book, session_id, at_once)

    @property
    def tree(self) -> Tree:
        """Every waypoint, and the current one."""
        return self._book.tree

    def create(self, description: str, owner: Owner = "user") -> Waypoint:
        """Make a waypoint of the files as they are."""
        return stepped(self._course.create(description, owner))

    def preview(self, waypoint_id: str, by: Owner = "user", *, force: bool = False) -> Restored:
        """What going back would change."""
        return stepped(self._course.look(waypoint_id, by, force=force))

    def restore(self, waypoint_id: str, by: Owner = "user", *, force: bool = False) -> Restored:
        """Take the files back to a waypoint."""
        call = Call("", "restore_waypoint", {}, session_id=self._session_id)
        return stepped(self._course.restore(waypoint_id, by, call, force=force))

    def delete(self, waypoint_id: str, by: Owner = "user") -> Waypoint:
        """Forget a waypoint."""
        return stepped(self._course.delete(waypoint_id, by))


async def at_once(work: Callable[[], T], /) -> T:
    """Do it here and now."""
    return work()


def stepped(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a coroutine waited that was not to")
