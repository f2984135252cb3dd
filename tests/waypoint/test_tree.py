"""The tree of waypoints: whatever is made, left and deleted, it stays one tree with one current position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.plugins.waypoint.plugin import render_tree
from jaato.plugins.waypoint.restore import InMemoryWaypoints
from jaato.protocol.specs import Owner, Waypoint
from jaato.tools.waypoints import START, Tree

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership", "S4.waypoints.2")
OWNERS: list[Owner] = ["user", "model"]
STEP = st.tuples(st.sampled_from(["create", "stand", "delete"]), st.integers(0, 30), st.sampled_from(OWNERS))


def above(tree: Tree, one: Waypoint) -> list[str]:
    """The waypoints a waypoint comes from."""
    path: list[str] = []
    while one.parent is not None:
        assert one.parent not in path
        path.append(one.parent)
        one = tree.waypoints[one.parent]
    return path


@S4
@given(st.lists(STEP, max_size=30))
def test_whatever_happens_it_is_one_tree(steps: list[tuple[str, int, Owner]]) -> None:
    """Every waypoint comes from w0, ids are never given twice and count on whoever owns, and each is drawn once."""
    log = InMemoryWaypoints()
    given_ids: list[str] = [START]
    for verb, number, owner in steps:
        tree = log.tree
        chosen = list(tree.waypoints)[number % len(tree.waypoints)]
        if verb == "create":
            before = tree.current
            made = log.create(f"number {number}", owner, "m")
            assert (made.id, made.parent, made.owner) == (f"w{len(given_ids)}", before, owner)
            given_ids.append(made.id)
            assert (tree.current, tree.saved) == (made.id, True)
        elif verb == "stand":
            log.stand(chosen, "m", saved=True)
            assert tree.current == chosen
        elif chosen != START:
            here = tree.current == chosen
            log.delete(chosen)
            assert chosen not in tree.waypoints
            assert not (here and tree.saved)
    tree = log.tree
    assert tree.current in tree.waypoints
    for one in tree.waypoints.values():
        assert one.id == START or above(tree, one)[-1] == START
    lines = render_tree(tree).splitlines()
    assert len(lines) == len(tree.waypoints)
    assert sum("◀ current" in line for line in lines) == 1


@S4
def test_it_is_drawn_as_the_specification_draws_it() -> None:
    """The example of the document, to the letter."""
    log = InMemoryWaypoints()
    log.create("before auth refactor", "user", "m")
    log.create("pre-optimization", "model", "m")
    log.stand(START, "m", saved=True)
    log.create("alternate approach", "model", "m")
    log.stand(START, "m", saved=True)
    assert render_tree(log.tree) == (
        'w0 "session start" ◀ current\n'
        '├── w1 "before auth refactor" [user]\n'
        '│   └── w2 "pre-optimization" [model]\n'
        '└── w3 "alternate approach" [model]'
    )


@S4
def test_a_damaged_log_makes_no_other_tree() -> None:
    """Events that are missing, or say what cannot be, leave w0 and a position that exists."""
    tree = Tree()
    lost = Waypoint("w7", "lost", "model", parent="w5")
    tree.apply("restored", lost, "w7", "m", True)
    assert tree.current == START
    tree.apply("created", lost, "w7", "m", True)
    tree.apply("deleted", Waypoint(START, "", "user"), START, "m", True)
    assert list(tree.waypoints) == [START, "w7"]
    assert tree.next_id == "w8"
    assert render_tree(tree).splitlines()[0].startswith(START)
