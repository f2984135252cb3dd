"""Making waypoints and going back to them: what the tools, the user's command and programs do alike."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from jaato.errors import ToolError
from jaato.plugins.waypoint.plan import Plan, Rules, plan_back
from jaato.protocol.specs import Owner, Waypoint
from jaato.tools.call import Call, clean
from jaato.tools.files.changes import Changes
from jaato.tools.files.records import IDS, first_id
from jaato.tools.files.recovery import recover
from jaato.tools.files.replace import FileChanged
from jaato.tools.files.sets import carry_out, remove_empty
from jaato.tools.waypoints import RESTORING, START, Book, waypoint_key

MAX_WAYPOINTS = 200
MAX_DESCRIPTION = 500
TRIES = 5
T = TypeVar("T")


class WaypointRefused(ToolError):
    """There is no such waypoint, or it cannot be made, left or deleted that way."""

    code = "waypoint_refused"


class NotOwner(ToolError):
    """The waypoint is the user's."""

    code = "not_owner"


class Away(Protocol):
    """Runs what waits for the disk, away from the loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass
class Restored:
    """How going back went: what changed (or would), and the ceiling that was made first."""

    waypoint: Waypoint
    plan: Plan = field(default_factory=Plan)
    ceiling: Waypoint | None = None
    unsaved: bool = False


class Course:
    """The waypoints of one session in one workspace. Coroutines run on the session's loop; only `away` leaves it."""

    def __init__(self, changes: Changes, book: Book, session_id: str, away: Away) -> None:
        self._changes = changes
        self._book = book
        self._session_id = session_id
        self._away = away

    def find(self, waypoint_id: str) -> Waypoint:
        """The waypoint with this id. Raises `WaypointRefused` that names those there are."""
        known = self._book.tree.waypoints
        found = known.get(waypoint_key(waypoint_id))
        if found is None:
            raise WaypointRefused(
                f"There is no waypoint {waypoint_id[:40]!r}. Waypoints: {', '.join(list(known)[:50])}."
            )
        return found

    async def create(self, description: str, owner: Owner, *, ceiling: bool = False) -> Waypoint:
        """Make a waypoint of the files as they are. Raises `ToolError`s; there is none then."""
        text = " ".join("".join(c if c.isprintable() else " " for c in clean(description)).split())
        if not text:
            raise WaypointRefused("The description is empty. Say in a few words where this is.")
        if len(text) > MAX_DESCRIPTION:
            raise WaypointRefused(
                f"The description has {len(text)} characters; at most {MAX_DESCRIPTION} fit."
            )
        tree = self._book.tree
        if len(tree.waypoints) >= MAX_WAYPOINTS:
            raise WaypointRefused(
                f"There are {MAX_WAYPOINTS} waypoints already. Delete some that are no longer needed."
            )
        marks = self._marks()
        mark = await self._away(lambda: self._pinned(marks))
        return self._book.create(text, owner, mark, ceiling=ceiling)

    def _marks(self) -> list[str]:
        """Every moment in the backups that a waypoint stands for, that of the start among them."""
        return [one.mark for one in self._book.tree.waypoints.values()]

    def _pinned(self, marks: list[str]) -> str:
        """A new mark, whose backups stay from now on."""
        for known in (*marks, self._book.tree.mark):
            IDS.passed(known)
        with self._changes.backups.open():
            mark = IDS.next()
        self._changes.backups.pin(self._session_id, [*marks, mark])
        return mark

    async def delete(self, waypoint_id: str, by: Owner) -> Waypoint:
        """Forget a waypoint. Raises `NotOwner` and `WaypointRefused`."""
        found = self.find(waypoint_id)
        if found.id == START:
            raise WaypointRefused(f"{START} is where the session began; it stays.")
        if by == "model" and found.owner == "user":
            raise NotOwner(f"{found.id} is a waypoint of the user, so only the user can delete it.")
        self._book.delete(found.id)
        marks = self._marks()
        await self._away(lambda: self._changes.backups.pin(self._session_id, marks))
        return found

    async def look(self, waypoint_id: str, by: Owner, *, force: bool = False) -> Restored:
        """What going back would change, without doing it."""
        found = self.find(waypoint_id)
        return await self._away(lambda: self._looked(found, by, force))

    async def restore(self, waypoint_id: str, by: Owner, call: Call, *, force: bool = False) -> Restored:
        """Take the files back to a waypoint; what is unsaved becomes a ceiling first. Raises `ToolError`s; the files are
        as they were then."""
        found = self.find(waypoint_id)
        ceiling: Waypoint | None = None
        for attempt in range(1, TRIES + 1):
            done = await self._away(lambda: self._looked(found, by, force))
            if done.unsaved and ceiling is None:
                ceiling = await self.create(f"before going back to {found.id}", by, ceiling=True)
            try:
                await self._away(functools.partial(self._go, done.plan, call))
                break
            except FileChanged:
                if attempt == TRIES:
                    raise
        done.ceiling = ceiling
        self._book.stand(found.id, IDS.next(), saved=not done.plan.kept)
        return done

    def _go(self, plan: Plan, call: Call) -> None:
        """Carry a plan out."""
        if plan:
            carry_out(self._changes, plan.relocations, plan.steps, call, RESTORING)
        remove_empty(self._changes, plan.emptied)

    def _looked(self, waypoint: Waypoint, by: Owner, force: bool) -> Restored:
        """The plan, and whether it would take away what no waypoint has."""
        recover(self._changes)
        tree = self._book.tree
        began = tree.waypoints[START].created_at if waypoint.id == START else ""
        lost = self._changes.backups.lost(self._session_id)
        if lost > max(waypoint.mark, first_id(began)) and not force:
            raise WaypointRefused(
                f"{waypoint.id} has faded: backups that it needs were dropped to keep within their bounds. "
                "A newer waypoint may still be whole; the user can force what is left of this one."
            )
        protected = (lambda _path: False) if by == "user" else self._changes.roots.is_control
        rules = Rules(force, protected)
        plan = plan_back(self._changes, self._session_id, waypoint.mark, rules)
        unsaved = bool(plan) and (
            plan.forced
            or not tree.saved
            or bool(plan_back(self._changes, self._session_id, tree.mark, Rules(True)))
        )
        return Restored(waypoint, plan, None, unsaved)
