"""Several questions at once: one prompt at a time, and what an answer settles of those that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.permissions.ground import C4, NOOP, RUN, S4, call, enforced, gate_of, step

from jaato.abc.asker import Answer, Question
from jaato.tools.permissions.gate import Decision, Gate, Policy

NEEDS = {
    "cp": ["control"],
    "fetch": ["net:a.example"],
    "both": ["net:a.example", "net:b.example"],
    "put": ["dir:/srv"],
}
"""What a command asks for, by its program; else writing in the workspace."""


class Door:
    """An asker for sessions: each question waits until the test answers it."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: list[str] = []
        self.open = 0

    async def ask(self, question: Question) -> Answer:
        """The next answer, after everyone else had a chance to run."""
        self.open += 1
        assert self.open == 1, "two prompts at once"
        self.questions.append(question)
        await anyio.wait_all_tasks_blocked()
        self.open -= 1
        return Answer(answer=self.answers.pop(0))


def together(tmp_path: Path, commands: list[str], answers: list[str]) -> tuple[list[bool], int]:
    """Check these commands at once; tells which were allowed, and how many questions it took."""
    door = Door()
    door.answers = answers
    results: dict[int, Decision] = {}

    async def main() -> None:
        lock = anyio.Lock()

        @asynccontextmanager
        async def turnstile() -> AsyncIterator[None]:
            async with lock:
                yield

        def enter() -> AbstractAsyncContextManager[None]:
            return turnstile()

        gate = Gate(Policy(), asker=door, workspace=tmp_path, turnstile=enter, profiles=enforced)

        async def one(index: int, command: str) -> None:
            need = NEEDS.get(command.partition(" ")[0], ["write"])
            made = call(RUN, tmp_path, f"c{index}", command=command, need=need)
            results[index] = await gate.check(made, RUN)

        async with anyio.create_task_group() as group:
            for index, command in enumerate(commands):
                group.start_soon(one, index, command)
        later = Gate(Policy(), workspace=tmp_path, profiles=enforced)
        assert not (await later.check(call(RUN, tmp_path, command="make z", need=["write"]), RUN)).allowed

    anyio.run(main)
    return [results[index].allowed for index in range(len(commands))], len(door.questions)


@pytest.mark.spec("S0", "Parallel Tool Execution")
def test_prompts_come_one_at_a_time(tmp_path: Path) -> None:
    """Eight calls that wait are asked about one after the other."""
    assert together(tmp_path, [f"make {n}" for n in range(8)], ["y"] * 8) == ([True] * 8, 8)


@S4
def test_all_allows_what_is_pending_and_nothing_else(tmp_path: Path) -> None:
    """`all` settles every waiting question, but not one about a control path."""
    commands = [*(f"make {n}" for n in range(7)), "cp x y"]
    assert together(tmp_path, commands, ["all", "n"]) == ([True] * 7 + [False], 2)


@C4
def test_a_grant_settles_the_waiting_questions_it_covers(tmp_path: Path) -> None:
    """After `turn` for one of several waiting calls, those it covers are not asked about."""
    commands = ["pytest a", "pytest b", "make x", "pytest c"]
    assert together(tmp_path, commands, ["t", "n"]) == ([True, True, False, True], 2)


@C4
@pytest.mark.parametrize(
    ("commands", "allowed", "questions"),
    [
        (["make x", "fetch x", "put x"], [True, False, False], 3),
        (["fetch x", "make x", "fetch y"], [True, True, True], 1),
        (["fetch x", "both x"], [True, False], 2),
        (["both x", "fetch y"], [True, True], 1),
    ],
)
def test_all_opens_nothing_that_its_question_did_not_show(
    tmp_path: Path, commands: list[str], allowed: list[bool], questions: int
) -> None:
    """Whoever says `all` has seen one question: a call that waits behind it for hosts or directories that this one does not
    open has a question of its own."""
    assert together(tmp_path, commands, ["all", "n", "n"]) == (allowed, questions)


@S4
def test_all_is_nothing_lasting(tmp_path: Path) -> None:
    """A call that comes after `all` is asked about."""
    gate, script = gate_of(tmp_path, "all", "n")
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert gate.grants() == []
    assert len(script.questions) == 2
