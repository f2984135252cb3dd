"""Makes waypoints and restores files to them: the plan of what changes and what is kept, then the transaction."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from jaato.abc.store import Damaged
from jaato.errors import ToolError
from jaato.plugins.waypoint.past_state import (
    ABSENT,
    HUGE,
    MAY_BE_FORCED,
    PROTECTED,
    PastState,
    PathContent,
    read_path,
)
from jaato.plugins.waypoint.undo import UndoPoint, find_kept_point, find_undo_point, group_calls
from jaato.protocol import events
from jaato.protocol.events import Event
from jaato.protocol.specs import Owner, Waypoint
from jaato.tools.call import Call, replace_surrogates
from jaato.tools.filesystem.atomic_replace import FileChanged
from jaato.tools.filesystem.backup_directory import IDS, first_id
from jaato.tools.filesystem.backups import Backups
from jaato.tools.filesystem.changes import Changes
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.errors import FileFailed, RollbackFailed
from jaato.tools.filesystem.transactions import (
    FileMove,
    FileReplacement,
    commit_transaction,
    recover_transactions,
    remove_empty,
)
from jaato.tools.invisible_text import printable_line
from jaato.tools.pipeline import run_without_loop
from jaato.tools.waypoints import RESTORING, START, Tree, WaypointLog, waypoint_key

DIRECTORY = "a directory is in its place"
FILE = "a file is in its place"
PRUNED = "its backup is gone or damaged"
MAX_WAYPOINTS = 200
MAX_DESCRIPTION = 500
TRIES = 5
T = TypeVar("T")


@dataclass
class RestorePlan:
    """Steps and relocations, what is left alone (path, as it is called afterwards, and reason), and whether somebody
    else's changes are overruled."""

    relocations: list[FileMove] = field(default_factory=list)
    steps: list[FileReplacement] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    """Directories that are not needed afterwards, if nothing is in them."""
    forced: bool = False

    def __bool__(self) -> bool:
        return bool(self.relocations or self.steps)


def plan_restore(
    changes: Changes,
    session_id: str,
    mark: str,
    force: bool,
    protected: Callable[[str], bool] = lambda _path: False,
) -> RestorePlan:
    """The plan from the files as they are to what this session's changes since a mark had found.

    `force` overrules other people's changes; `protected` paths, which decide what runs, are kept.
    """
    records = changes.backups.since(mark)
    own = [record for record in records if record.session_id == session_id]
    foreign = frozenset(record.path for record in records if record.session_id != session_id)
    look = functools.cache(functools.partial(read_path, changes))
    world = PastState(look, foreign, protected)
    world.go_back(own)
    return Planner(changes, world, force, protected).plan()


class Planner:
    """Makes a plan of a world that has gone back."""

    def __init__(
        self, changes: Changes, world: PastState, force: bool, protected: Callable[[str], bool]
    ) -> None:
        self._changes = changes
        self._world = world
        self._force = force
        self._protected = protected
        self._differing = [
            (path, content, self._now(path))
            for path, content in sorted(world.contents.items())
            if content.content_key != self._now(path).content_key
        ]

    def _now(self, path: str) -> PathContent:
        """The content of a path, once the directories have moved."""
        place = self._world.now_at(path)
        return ABSENT if place is None else self._world.look(place)

    def plan(self) -> RestorePlan:
        """The plan."""
        world = self._world
        made = RestorePlan(relocations=list(world.moved), emptied=world.spare_directories())
        made.kept += [(destination, reason) for _, destination, reason in world.stuck]
        moves = self._clean_moves()
        for path, content, now in self._differing:
            if path in moves or path in moves.values():
                continue
            if found := self._obstacle(path, content, now):
                world.trouble[world.groups[path]] = found
        for path, content, now in self._differing:
            problem = world.problem(path)
            if problem and not (self._force and problem in MAY_BE_FORCED):
                made.kept.append((path, problem))
                continue
            made.forced = made.forced or bool(problem)
            if path in moves:
                made.relocations.append(FileMove(moves[path], path, content.state, content.mode))
            elif path not in moves.values():
                made.steps.append(self._step(path, content, now))
        made.kept = sorted(dict(reversed(made.kept)).items())
        return made

    def _clean_moves(self) -> dict[str, str]:
        """The files that can get their old name back, by it: those that are whole under the new one, where nothing else
        was."""
        world = self._world
        leaving = {
            world.now_at(path): path
            for path, content, now in self._differing
            if content.state == "absent" and now.state in ("file", "link")
        }
        moves: dict[str, str] = {}
        for path, content, now in self._differing:
            source = leaving.get(content.origin) if content.origin else None
            free = now.content_key == "absent" and source not in moves.values()
            if source is not None and free and not any(map(self._protected, (path, source))):
                moves[path] = source
        return moves

    def _obstacle(self, path: str, content: PathContent, now: PathContent) -> str:
        """Why a path cannot be changed even by force; empty for no reason."""
        world = self._world
        known = world.problem(path)
        if known and known not in MAY_BE_FORCED:
            return known
        if self._protected(path):
            return PROTECTED
        if now.unknown or now.state == "directory":
            return now.unknown or DIRECTORY
        if content.state == "directory" and now.state != "absent":
            return FILE
        if now.is_huge or content.is_huge:
            return HUGE
        if content.digest and not content.origin and not self._changes.backups.is_whole(content.digest):
            return PRUNED
        return known

    def _step(self, path: str, content: PathContent, now: PathContent) -> FileReplacement:
        """The change of one path. The mode of a file that was there all the time stays as it is."""
        stays = now.state == "file" and path not in self._world.born
        return FileReplacement(
            path=path,
            at=self._world.now_at(path) or "",
            now=now.content_key,
            state=content.state,
            digest=content.digest,
            link=content.link,
            mode=None if stays or content.state != "file" else content.mode,
            size_bytes=content.size_bytes,
        )


def carry_out(changes: Changes, plan: RestorePlan, call: Call) -> None:
    """Change the files as planned. Raises `FileChanged` when one is no longer as the plan found it."""
    if plan:
        commit_transaction(changes, plan.relocations, plan.steps, call, RESTORING)
    remove_empty(changes, plan.emptied)


def list_planned_changes(plan: RestorePlan) -> Sequence[tuple[str, str]]:
    """Every change of a plan, as the path and what happens to it."""
    result = [(one.destination, f"moved back from {one.source}") for one in plan.relocations]
    for step in plan.steps:
        match step.state:
            case "absent":
                result.append((step.path, "removed"))
            case _ if step.now == "absent":
                result.append((step.path, "brought back"))
            case _:
                result.append((step.path, "restored"))
    return sorted(result)


class WaypointRefused(ToolError):
    """There is no such waypoint, or it cannot be made, left or deleted that way."""

    code = "waypoint_refused"


class NotOwner(ToolError):
    """The waypoint is the user's."""

    code = "not_owner"


class RunInThread(Protocol):
    """Runs blocking work in a thread, off the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass
class RestoreResult:
    """How going back went: what changed (or would), and the ceiling that was made first."""

    waypoint: Waypoint
    plan: RestorePlan = field(default_factory=RestorePlan)
    ceiling: Waypoint | None = None
    unsaved: bool = False


class WaypointRestorer:
    """The waypoints of one session in one workspace. Coroutines run on the session's loop; only `run_in_thread` leaves it."""

    def __init__(
        self, changes: Changes, log: WaypointLog, session_id: str, run_in_thread: RunInThread
    ) -> None:
        self._changes = changes
        self._log = log
        self._session_id = session_id
        self._run_in_thread = run_in_thread

    def find(self, waypoint_id: str) -> Waypoint:
        """The waypoint with this id. Raises `WaypointRefused` that names those there are."""
        known = self._log.tree.waypoints
        found = known.get(waypoint_key(waypoint_id))
        if found is None:
            raise WaypointRefused(
                f"There is no waypoint {waypoint_id[:40]!r}. Waypoints: {', '.join(list(known)[:50])}."
            )
        return found

    async def create(
        self, description: str, owner: Owner, *, ceiling: bool = False, mark: str = ""
    ) -> Waypoint:
        """Make a waypoint of the files as they are, or as they were at a mark. Raises `ToolError`s; there is none then."""
        text = printable_line(replace_surrogates(description))
        if not text:
            raise WaypointRefused("The description is empty. Say in a few words where this is.")
        if len(text) > MAX_DESCRIPTION:
            raise WaypointRefused(
                f"The description has {len(text)} characters; at most {MAX_DESCRIPTION} fit."
            )
        tree = self._log.tree
        if len(tree.waypoints) >= MAX_WAYPOINTS:
            raise WaypointRefused(
                f"There are {MAX_WAYPOINTS} waypoints already. Delete some that are no longer needed."
            )
        mark = await self._run_in_thread(functools.partial(self._pin_mark, self._marks(), mark))
        return self._log.create(text, owner, mark, ceiling=ceiling)

    def _marks(self) -> list[str]:
        """Every moment in the backups that a waypoint stands for, that of the start among them."""
        return [one.mark for one in self._log.tree.waypoints.values()]

    def _pin_mark(self, marks: list[str], mark: str) -> str:
        """A mark, a new one if none is given, whose backups stay from now on."""
        for known in (*marks, self._log.tree.mark):
            IDS.advance_past(known)
        with self._changes.backups.open():
            mark = mark or IDS.next()
        self._changes.backups.pin(self._session_id, [*marks, mark])
        return mark

    async def delete(self, waypoint_id: str, by: Owner) -> Waypoint:
        """Forget a waypoint. Raises `NotOwner` and `WaypointRefused`."""
        found = self.find(waypoint_id)
        if found.id == START:
            raise WaypointRefused(f"{START} is where the session began; it stays.")
        if by == "model" and found.owner == "user":
            raise NotOwner(f"{found.id} is a waypoint of the user, so only the user can delete it.")
        self._log.delete(found.id)
        marks = self._marks()
        await self._run_in_thread(lambda: self._changes.backups.pin(self._session_id, marks))
        return found

    async def find_undo_point(
        self, log: Iterable[Event | Damaged], *, force: bool = False
    ) -> UndoPoint | None:
        """The point before the newest changes of this session, which has this log, that are in effect; None for no changes.
        With `force` first what the last restore has kept. Raises `ToolError`s."""
        records = await self._run_in_thread(lambda: self._changes.backups.since(""))
        own = [record for record in records if record.session_id == self._session_id]
        groups = await self._run_in_thread(lambda: group_calls(log if own else ()))
        point = find_kept_point(own, self._log.tree, groups) if force else None
        while (point := point or find_undo_point(own, self._log.tree, groups)) is not None:
            plan = (await self.look_at(point, force=force)).plan
            if plan or plan.kept:
                return point
            own = [record for record in own if record.id <= point.mark]  # taken back otherwise
            point = None
        return None

    async def undo(self, point: UndoPoint, call: Call, *, force: bool = False) -> RestoreResult:
        """Take the newest changes back, for the user; a waypoint is made of the point, unless nothing can be taken back.
        Raises `ToolError`s as `restore` does."""
        planned = await self.look_at(point, force=force)
        if not planned.plan:
            return planned
        made = await self.create(planned.waypoint.description, "user", mark=point.mark)
        try:
            return await self.restore(made.id, "user", call, force=force)
        except ToolError:
            await self.delete(made.id, "user")
            raise

    async def look_at(self, point: UndoPoint, *, force: bool = False) -> RestoreResult:
        """Plan to take the newest changes back, without doing it."""
        description = f"before: {point.label}" if point.label else "before a change"
        wanted = Waypoint("", description, "user", mark=point.mark)
        return await self._run_in_thread(lambda: self._plan_restore(wanted, "user", force))

    async def look(self, waypoint_id: str, by: Owner, *, force: bool = False) -> RestoreResult:
        """Plan a restore without carrying it out."""
        found = self.find(waypoint_id)
        return await self._run_in_thread(lambda: self._plan_restore(found, by, force))

    async def restore(self, waypoint_id: str, by: Owner, call: Call, *, force: bool = False) -> RestoreResult:
        """Take the files back to a waypoint; what is unsaved becomes a ceiling first. Raises `ToolError`s; the files are
        as they were then, or the message says what is not, and which waypoint has it."""
        found = self.find(waypoint_id)
        ceiling: Waypoint | None = None
        for attempt in range(1, TRIES + 1):
            done = await self._run_in_thread(lambda: self._plan_restore(found, by, force))
            if done.unsaved and ceiling is None:
                ceiling = await self.create(f"before going back to {found.id}", by, ceiling=True)
            try:
                await self._run_in_thread(functools.partial(carry_out, self._changes, done.plan, call))
                break
            except RollbackFailed as error:
                back = ceiling.id if ceiling is not None else self._log.tree.current
                raise FileFailed(f"{error} Waypoint {back} has what the files held before.") from error
            except ToolError as error:
                if attempt < TRIES and isinstance(error, FileChanged):
                    continue
                if ceiling is not None:
                    await self.delete(ceiling.id, "user")
                raise
        done.ceiling = ceiling
        self._log.stand(found.id, IDS.next(), saved=not done.plan.kept)
        return done

    def _plan_restore(self, waypoint: Waypoint, by: Owner, force: bool) -> RestoreResult:
        """The plan, and whether it would take away what no waypoint has."""
        recover_transactions(self._changes)
        tree = self._log.tree
        began = tree.waypoints[START].created_at if waypoint.id == START else ""
        lost = self._changes.backups.lost(self._session_id)
        if lost > max(waypoint.mark, first_id(began)) and not force:
            raise WaypointRefused(
                f"{waypoint.id or 'The state before'} has faded: backups that it needs were dropped to keep within their bounds. "
                "A newer waypoint may still be whole.",
                ask="use --force for what is left of this one.",
            )
        protected = (lambda _path: False) if by == "user" else self._changes.roots.is_control
        plan = plan_restore(self._changes, self._session_id, waypoint.mark, force, protected)
        unsaved = bool(plan) and (
            plan.forced
            or not tree.saved
            or bool(plan_restore(self._changes, self._session_id, tree.mark, True))
        )
        return RestoreResult(waypoint, plan, None, unsaved)


class InMemoryWaypoints:
    """Waypoints in memory, for calls without a session."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.tree.begin(events.now())

    def create(self, description: str, owner: Owner, mark: str, *, ceiling: bool = False) -> Waypoint:
        """Make one, which is then the current one."""
        tree = self.tree
        made = Waypoint(
            tree.next_id, description, owner, tree.current, events.now(), mark=mark, ceiling=ceiling
        )
        tree.apply("created", made, made.id, mark, True)
        return made

    def stand(self, waypoint_id: str, mark: str, saved: bool) -> None:
        """Note that the files went back to one."""
        self.tree.apply("restored", self.tree.waypoints[waypoint_id], waypoint_id, mark, saved)

    def delete(self, waypoint_id: str) -> None:
        """Forget one."""
        current, saved = self.tree.without(waypoint_id)
        self.tree.apply("deleted", self.tree.waypoints[waypoint_id], current, self.tree.mark, saved)


class WaypointManager:
    """The waypoints of a workspace, for the changes that were made under this session id. Raises `ToolError`s."""

    def __init__(self, workspace: str | Path, session_id: str = "") -> None:
        self._session_id = session_id
        self._log = InMemoryWaypoints()
        self._changes = Changes(Roots(Path(workspace)), Backups(Path(workspace), max_count=0))
        self._restorer = WaypointRestorer(self._changes, self._log, session_id, run_now)

    @property
    def tree(self) -> Tree:
        """Every waypoint, and the current one."""
        return self._log.tree

    def create(self, description: str, owner: Owner = "user") -> Waypoint:
        """Make a waypoint of the files as they are."""
        return run_without_loop(self._restorer.create(description, owner))

    def preview(self, waypoint_id: str, by: Owner = "user", *, force: bool = False) -> RestoreResult:
        """Plan a restore without carrying it out."""
        return run_without_loop(self._restorer.look(waypoint_id, by, force=force))

    def restore(self, waypoint_id: str, by: Owner = "user", *, force: bool = False) -> RestoreResult:
        """Take the files back to a waypoint."""
        call = Call("", "restore_waypoint", {}, session_id=self._session_id)
        return run_without_loop(self._restorer.restore(waypoint_id, by, call, force=force))

    def delete(self, waypoint_id: str, by: Owner = "user") -> Waypoint:
        """Forget a waypoint."""
        return run_without_loop(self._restorer.delete(waypoint_id, by))


async def run_now(work: Callable[[], T], /) -> T:
    """Do it here and now."""
    return work()
