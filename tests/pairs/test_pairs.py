"""Two clients of different kinds at one session: the second joins in mid-turn, answers, steers and stops."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.page.browser import need_chromium
from tests.page.serve_page import HOLD
from tests.pairs.faces import FACES, Face, RichClient, call, scene

STEPS = [
    call("printf asked > a.txt", "write", text=f"The first half, {HOLD} and the second half."),
    call("printf two > b.txt", "write", text="Now the other file."),
    call("until [ -e steered ]; do sleep 0.05; done", text="A long command."),
    call("sleep 300", text="Changed course."),
    {"text": "never"},
]
EDITED = {"command": "printf edited > a.txt", "need": ["write"]}
PAIRS = [
    pytest.param(
        *pair,
        id="-".join(pair),
        marks=[pytest.mark.slow] if pair == ("editor", "line") else [pytest.mark.system],
    )
    for pair in [*itertools.permutations(FACES, 2), ("rich", "line"), ("line", "rich")]
]
KINDS: dict[str, type[Face]] = {**FACES, "rich": RichClient}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_second_client_of_the_other_kind_follows_and_answers(
    tmp_path: Path, first: str, second: str
) -> None:
    """Both show the same turn; each sees the other's answers, messages and stop, and by whom they are."""
    if "page" in (first, second):
        need_chromium()
    with scene(tmp_path, *STEPS) as stage:
        one, two = KINDS[first](stage), KINDS[second](stage)
        with one.open():
            one.send("Write two files.")
            one.see("The first half")
            with two.open(stage.session_id()):
                two.see("Write two files", "The first half")
                (stage.work / "go").touch()
                for face in (one, two):
                    face.see("second half")
                    face.is_asked()
                two.allow(EDITED if two.can_edit else None)
                one.see(f"{two.name} answered: yes{', with edited arguments' if two.can_edit else ''}")
                for face in (one, two):
                    face.see("Now the other file", r"printf two > b.txt")
                    face.is_asked()
                assert (stage.work / "a.txt").read_text() == ("edited" if two.can_edit else "asked")
                one.allow()
                two.see(f"{one.name} answered: yes")
                two.is_not_asked()
                for face in (one, two):
                    face.see("A long command")
                assert (stage.work / "b.txt").read_text() == "two"
                two.send("Go left instead.")
                one.see("Go left instead")
                (stage.work / "steered").touch()
                for face in (one, two):
                    face.see("Changed course", "sleep 300")
                two.stop()
                for face in (one, two):
                    face.see("Interrupted; completed work is kept|stopped: cancelled")
                two.leave()
            one.leave()
        assert stage.commands() == []
        state = stage.state()
    assert (state.turns, state.open_turn, state.questions, state.calls) == (1, None, {}, {})
