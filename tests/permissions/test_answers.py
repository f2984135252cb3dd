"""Answers to a permission question: every documented one, edited arguments, unknown ones, silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.permissions.ground import C4, FREE, NOOP, S1, S4, call, gate_of, step

from jaato.abc.asker import ANSWERS, Answer


@S1
@S4
@pytest.mark.parametrize(
    ("answer", "allowed", "method"),
    [("y", True, "user_approved"), ("yes", True, "user_approved"), ("YES ", True, "user_approved"),
     ("n", False, "user_denied"), ("no", False, "user_denied"), ("a", True, "user_approved"),
     ("always", True, "user_approved"), ("t", True, "turn"), ("turn", True, "turn"), ("i", True, "idle"),
     ("idle", True, "idle"), ("once", True, "user_approved"), ("never", False, "user_denied"), ("all", True, "user_approved")],
)  # fmt: skip
def test_every_answer(tmp_path: Path, answer: str, allowed: bool, method: str) -> None:
    """Each documented answer, in each spelling, decides the call and says how."""
    gate, script = gate_of(tmp_path, answer)
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (allowed, method)
    assert decision.permission.decision == ("allowed" if allowed else "denied")
    assert script.questions[0].options == ANSWERS


@C4
def test_comment_denies_and_tells_the_model_why(tmp_path: Path) -> None:
    """`c TEXT` denies the call and hands the text on."""
    gate, _ = gate_of(tmp_path, Answer(answer="c", comment="use the other file"))
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.comment) == (False, "use the other file")
    assert "use the other file" in decision.permission.reason


@C4
def test_edited_arguments_are_not_asked_about_again_but_only_exactly_these(tmp_path: Path) -> None:
    """The user's own arguments pass the second check once; anything else, and the blacklist, is judged
    anew."""
    gate, script = gate_of(tmp_path, Answer(answer="e", arguments={"command": "make b"}), "n")
    one = call(FREE, tmp_path, command="make a")
    decision = step(gate, one, FREE)
    assert (decision.allowed, decision.arguments) == (True, {"command": "make b"})
    one.arguments = {"command": "make c"}
    assert not step(gate, one, FREE).allowed
    assert len(script.questions) == 2
    one.arguments = {"command": "make b"}
    assert step(gate, one, FREE).allowed
    assert len(script.questions) == 2
    assert not step(gate, one, FREE).allowed
    assert len(script.questions) == 3


@C4
def test_edited_arguments_meet_the_blacklist(tmp_path: Path) -> None:
    """What the user typed is still held against the blacklist."""
    gate, _ = gate_of(
        tmp_path, Answer(answer="e", arguments={"command": "rm x"}), blacklist={"patterns": ["rm *"]}
    )
    one = call(FREE, tmp_path, command="make a")
    decision = step(gate, one, FREE)
    assert decision.arguments is not None
    one.arguments = decision.arguments
    assert step(gate, one, FREE).permission.method == "blacklist"


@C4
def test_unknown_answers_are_asked_again_and_then_denied(tmp_path: Path) -> None:
    """An answer nobody knows never allows: it is asked again, three times in all."""
    gate, script = gate_of(tmp_path, "maybe", "", Answer(answer="e"), "y")
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert [("is no answer" in one.reason) for one in script.questions] == [False, True, True]
    gate, script = gate_of(tmp_path, "what", "y")
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
def test_timeout_and_silence(tmp_path: Path) -> None:
    """An asker out of time denies as `timeout`, one that has nobody as `no_channel`."""

    def late() -> Answer:
        raise TimeoutError

    gate, _ = gate_of(tmp_path, late, None)
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "timeout"
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "no_channel"


def test_an_asker_that_fails_never_allows(tmp_path: Path) -> None:
    """An exception of the asker reaches the caller, and nothing is left waiting."""

    def broken() -> Answer:
        raise RuntimeError("gone")

    gate, _ = gate_of(tmp_path, broken, "all")
    with pytest.raises(RuntimeError, match="gone"):
        step(gate, call(NOOP, tmp_path), NOOP)
    assert gate._waiting == []
