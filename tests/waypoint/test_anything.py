"""Whatever tools and the user do between waypoints, going back loses nothing of the user's and undoes what tools did."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waypoint.trip import Trip, kept

from jaato.errors import ToolError
from jaato.plugins.waypoint.past_state import OCCUPIED
from jaato.tools.filesystem.atomic import is_below

PATHS = ("a", "b", "d/a", "d/b", "e/a")
PATH = st.sampled_from(PATHS)
TOOL = st.one_of(
    st.tuples(st.sampled_from(["write", "remove", "undo"]), PATH, PATH),
    st.tuples(st.sampled_from(["move", "move over"]), PATH, PATH),
    st.tuples(st.sampled_from(["move", "remove"]), st.sampled_from("de"), st.sampled_from("def")),
    st.tuples(st.sampled_from(["waypoint", "restore", "restore", "drop"]), PATH, PATH),
)
USER = st.one_of(
    st.tuples(st.sampled_from(["user writes", "user removes", "user moves"]), PATH, PATH),
    st.tuples(st.just("user moves"), st.sampled_from("de"), st.sampled_from("def")),
    st.tuples(st.just("force"), PATH, PATH),
)
Step = tuple[str, str, str]
TAKEN = {OCCUPIED.format(path=name) for name in ("d", "e", "f", "d/d", "d/e", "d/f", "e/d", "e/f")}
"""A directory that tools have moved, and then made another of its old name, cannot go back."""


def by_tool(trip: Trip, step: str, path: str, other: str, number: int) -> None:
    """A change that is recorded."""
    match step:
        case "write":
            trip.write(path, f"tool {number}")
        case "remove":
            trip.remove(path)
        case "undo":
            trip.desk.call("undoFileChange", path=path)
        case _:
            trip.move(path, other, overwrite=step == "move over")


def by_user(trip: Trip, step: str, path: str, other: str, number: int) -> None:
    """A change that nobody records."""
    place, target = trip.workspace / path, trip.workspace / other
    try:
        match step:
            case "user writes":
                place.parent.mkdir(exist_ok=True)
                place.write_text(f"user {number}")
            case "user removes":
                place.unlink()
            case _ if not os.path.lexists(target):
                target.parent.mkdir(exist_ok=True)
                shutil.move(place, target)
    except (OSError, shutil.Error):
        pass


class Story:
    """Steps as they happen, with what each waypoint saw."""

    def __init__(self, workspace: Path) -> None:
        self.trip = Trip(workspace)
        (workspace / "a").write_text("user at first")
        (workspace / "d").mkdir()
        (workspace / "d/b").write_text("user at first, too")
        self.seen: dict[str, dict[str, str]] = {"w0": self.trip.state()}
        self.alone = True
        self.renamed = False
        """Whether a directory was moved: one that will be looked for is not removed."""
        self.theirs: set[str] = set()
        """What the user wrote and no tool has touched since."""

    def tell(self, number: int, step: Step) -> None:
        """One step."""
        verb, path, other = step
        trip, tree = self.trip, self.trip.manager.tree
        target = list(tree.waypoints)[number * 7 % len(tree.waypoints)]
        try:
            if verb.startswith("user"):
                self.alone = False
                by_user(trip, verb, path, other, number)
                self.theirs.add(f"user {number}")
            elif verb == "waypoint":
                self.seen[trip.manager.create(f"number {number}").id] = trip.state()
            elif verb == "drop":
                trip.manager.delete(target)
            elif verb in ("restore", "force"):
                self.back(target, force=verb == "force")
            else:
                self.touched(path, other)
                self.renamed = self.renamed or (verb == "move" and path in "de")
                by_tool(trip, verb, path, other, number)
        except ToolError:
            pass

    def directories(self) -> set[str]:
        """The directories there are."""
        found = (path for path in self.trip.workspace.rglob("*") if path.is_dir())
        names = {str(path.relative_to(self.trip.workspace)) for path in found}
        return {name for name in names if not name.startswith(".jaato")}

    def touched(self, *paths: str) -> None:
        """Tools work on these paths, knowing what is there."""
        for path, text in self.trip.state().items():
            if any(is_below(path, one) for one in paths):
                self.theirs.discard(text)

    def back(self, target: str, *, force: bool) -> None:
        """Go back, look at what that did, and go to the ceiling and back again."""
        trip = self.trip
        before = trip.state()
        shown = trip.manager.preview(target, force=force)
        assert trip.state() == before, "a look changes nothing"
        done = trip.manager.restore(target, force=force)
        after = trip.state()
        assert (done.plan.steps, done.plan.kept) == (shown.plan.steps, shown.plan.kept)
        if not force:
            there = set(before.values()) & self.theirs
            assert there <= set(after.values()), "what the user wrote is there"
        for path in kept(done):
            assert path not in after or after[path] in before.values(), "what is kept is as it was"
        if self.alone:
            assert set(kept(done).values()) <= TAKEN
        if self.alone and not done.plan.kept and target in self.seen:
            assert after == self.seen[target]
            assert target != "w0" or self.renamed or self.directories() == {"d"}, "none made is left"
        if done.ceiling is None:
            return
        self.seen[done.ceiling.id] = before
        again = trip.manager.restore(done.ceiling.id)
        assert set(kept(again).values()) <= (TAKEN if self.renamed else set())
        if again.plan.kept:
            return
        assert again.ceiling is None or done.plan.kept
        assert trip.state() == before, "the ceiling brings back what was there"


@pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(TOOL, max_size=14))
def test_what_tools_did_is_taken_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    """Where only tools change files, a waypoint brings every file back as it was, and a ceiling what was there before."""
    story = Story(tmp_path_factory.mktemp("w"))
    for number, step in enumerate(steps):
        story.tell(number, step)
    story.back("w0", force=False)


@pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.one_of(TOOL, USER), max_size=16))
def test_nothing_of_the_user_is_lost(tmp_path_factory: pytest.TempPathFactory, steps: list[Step]) -> None:
    """Whatever the user edits, removes and moves in between, it is there after going back; what was overruled is in the
    ceiling."""
    story = Story(tmp_path_factory.mktemp("w"))
    for number, step in enumerate(steps):
        story.tell(number, step)
    story.back("w0", force=False)
