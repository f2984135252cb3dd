"""What going back to a waypoint would change, and what it would leave alone and why; nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jaato.plugins.waypoint.world import ABSENT, HUGE, MAY_BE_FORCED, PROTECTED, Content, World, looker
from jaato.tools.files.changes import Changes
from jaato.tools.files.sets import Relocation, Step

DIRECTORY = "a directory is in its place"
FILE = "a file is in its place"
PRUNED = "its backup is gone or damaged"


@dataclass
class Plan:
    """Steps and relocations, what is left alone (path, as it is called afterwards, and reason), and whether somebody
    else's changes are overruled."""

    relocations: list[Relocation] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    """Directories that are not needed afterwards, if nothing is in them."""
    forced: bool = False

    def __bool__(self) -> bool:
        return bool(self.relocations or self.steps)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan may do: overrule other people's changes, and touch what decides what runs."""

    force: bool = False
    protected: Callable[[str], bool] = lambda _path: False


def plan_back(changes: Changes, session_id: str, mark: str, rules: Rules) -> Plan:
    """The way from the files as they are to what this session's changes since a mark had found."""
    records = changes.backups.since(mark)
    own = [record for record in records if record.session_id == session_id]
    foreign = frozenset(record.path for record in records if record.session_id != session_id)
    world = World(looker(changes), foreign, rules.protected)
    world.go_back(own)
    return Planner(changes, world, rules).plan()


class Planner:
    """Makes a plan of a world that has gone back."""

    def __init__(self, changes: Changes, world: World, rules: Rules) -> None:
        self._changes = changes
        self._world = world
        self._rules = rules
        self._differing = [
            (path, content, self._now(path))
            for path, content in sorted(world.contents.items())
            if content.held != self._now(path).held
        ]

    def _now(self, path: str) -> Content:
        """What is at a path, once the directories have moved."""
        place = self._world.now_at(path)
        return ABSENT if place is None else self._world.look(place)

    def plan(self) -> Plan:
        """The plan."""
        world = self._world
        made = Plan(relocations=list(world.moved), emptied=world.spare_directories())
        made.kept += [(destination, reason) for _, destination, reason in world.stuck]
        moves = self._clean_moves()
        for path, content, now in self._differing:
            if path in moves or path in moves.values():
                continue
            if found := self._obstacle(path, content, now):
                world.trouble[world.groups[path]] = found
        for path, content, now in self._differing:
            problem = world.problem(path)
            if problem and not (self._rules.force and problem in MAY_BE_FORCED):
                made.kept.append((path, problem))
                continue
            made.forced = made.forced or bool(problem)
            if path in moves:
                made.relocations.append(Relocation(moves[path], path, content.state, content.mode))
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
            free = now.held == "absent" and source not in moves.values()
            if source is not None and free and not any(map(self._rules.protected, (path, source))):
                moves[path] = source
        return moves

    def _obstacle(self, path: str, content: Content, now: Content) -> str:
        """Why a path cannot be changed, whoever wants it; empty for no reason."""
        world = self._world
        known = world.problem(path)
        if known and known not in MAY_BE_FORCED:
            return known
        if self._rules.protected(path):
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

    def _step(self, path: str, content: Content, now: Content) -> Step:
        """The change of one path. The mode of a file that was there all the time stays as it is."""
        stays = now.state == "file" and path not in self._world.born
        return Step(
            path=path,
            at=self._world.now_at(path) or "",
            now=now.held,
            state=content.state,
            digest=content.digest,
            link=content.link,
            mode=None if stays or content.state != "file" else content.mode,
            size_bytes=content.size_bytes,
        )


def paths_of(plan: Plan) -> Sequence[tuple[str, str]]:
    """Every change of a plan, as the path and what happens to it."""
    said = [(one.destination, f"moved back from {one.source}") for one in plan.relocations]
    for step in plan.steps:
        match step.state:
            case "absent":
                said.append((step.path, "removed"))
            case _ if step.now == "absent":
                said.append((step.path, "brought back"))
            case _:
                said.append((step.path, "restored"))
    return sorted(said)
