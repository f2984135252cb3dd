"""The server is killed while a question waits, with clients of different kinds at its session."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.page.browser import need_chromium
from tests.pairs.faces import FACES, call, scene

PAIRS = [
    pytest.param(
        *pair,
        id="-".join(pair),
        marks=[pytest.mark.system] if {"page", "terminal"} & set(pair) else [pytest.mark.slow],
    )
    for pair in itertools.combinations(FACES, 2)
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_question_waits_once_after_the_server_was_killed(tmp_path: Path, first: str, second: str) -> None:
    """Both come back by themselves and show the question once; one answer counts, and the call runs once."""
    if "page" in (first, second):
        need_chromium()
    steps = [call("echo once >> log.txt", "write"), {"text": "It goes on."}]
    with scene(tmp_path, *steps) as stage:
        one, two = FACES[first](stage), FACES[second](stage)
        with one.open():
            one.send("Write it.")
            one.is_asked()
            session_id = stage.session_id()
            with two.open(session_id):
                two.is_asked()
                for face in (one, two):
                    face.expect_loss()
                stage.server.kill()
                for face in (one, two):
                    face.see_loss()
                stage.server.start()
                for face in (one, two):
                    face.see_return()
                    face.is_asked()
                    assert face.questions() == 1
                two.allow()
                one.see(f"{two.name} answered: yes")
                for face in (one, two):
                    face.see("It goes on")
                    face.is_not_asked()
                assert (stage.work / "log.txt").read_text() == "once\n"
                two.leave()
            one.leave()
        assert stage.commands() == []
        state = stage.state()
        assert (state.turns, state.open_turn, state.questions, state.calls) == (1, None, {}, {})
        kinds = stage.event_types()
        wanted = ("permission.requested", "permission.resolved", "tool.call_start", "tool.call_end")
        assert [kinds.count(kind) for kind in wanted] == [1, 1, 1, 1]
