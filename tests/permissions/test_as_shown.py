"""An answer holds for what its question showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import kit

from jaato import Agent
from jaato.events import PermissionRequested
from jaato.providers.scripted import ScriptedProvider

EDIT = {"path": "notes.txt", "new_content": "one\nthree\n"}


def edit(tmp_path: Path, answers: list[str], changes: list[str]) -> list[PermissionRequested]:
    """Ask for an edit of a file which somebody else changes while the question is open; gives the questions."""
    notes = tmp_path / "notes.txt"
    asked: list[PermissionRequested] = []
    notes.write_text("one\ntwo\n")

    def answer(question: PermissionRequested) -> Any:
        asked.append(question)
        if changes:
            notes.write_text(changes.pop(0))
        return answers.pop(0)

    Agent(
        provider=ScriptedProvider([kit.call("updateFile", **EDIT), kit.say("Done.")]),
        workspace=tmp_path,
        state_dir=tmp_path / "state",
        environ={},
        plugins=["file_edit"],
        on_permission=answer,
    ).run_sync("Edit it.")
    return asked


@pytest.mark.parametrize("first", ["y", "once", "all"])
def test_a_file_that_changes_under_the_question(tmp_path: Path, first: str) -> None:
    """The diff that was shown is not the one that would be made: the question is asked again with the new one."""
    asked = edit(tmp_path, [first, "n"], ["one\nprecious\ntwo\n"])
    assert ["-precious" in question.preview for question in asked] == [False, True]
    assert "different since the question was asked" in asked[1].reason
    assert (tmp_path / "notes.txt").read_text() == "one\nprecious\ntwo\n"


def test_the_new_diff_may_be_allowed(tmp_path: Path) -> None:
    """A yes to the second question makes the edit."""
    assert len(edit(tmp_path, ["y", "y"], ["one\nprecious\ntwo\n"])) == 2
    assert (tmp_path / "notes.txt").read_text() == EDIT["new_content"]


@pytest.mark.parametrize(("answer", "then"), [("n", "one\nprecious\n"), ("t", EDIT["new_content"])])
def test_an_answer_that_needs_no_diff(tmp_path: Path, answer: str, then: str) -> None:
    """A no stays a no, and an answer for all such calls does not depend on this one's diff."""
    assert len(edit(tmp_path, [answer], ["one\nprecious\n"])) == 1
    assert (tmp_path / "notes.txt").read_text() == then


def test_a_file_that_never_rests(tmp_path: Path) -> None:
    """The call is denied after three questions whose diff was another each time."""
    assert len(edit(tmp_path, ["y"] * 3, ["a\n", "b\n", "c\n"])) == 3
    assert (tmp_path / "notes.txt").read_text() == "c\n"
