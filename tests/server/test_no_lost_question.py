"""The invariant of questions, on a model: no call waits on a question that nobody can see, whoever comes, goes, answers or dies."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.server.world import Viewer, World

from jaato.protocol.commands import (
    ClarificationResponse,
    ClientConfig,
    Command,
    PermissionResponse,
    SessionStop,
    TurnContinue,
)
from jaato.protocol.events import PermissionRequested, PermissionResolved, ToolCallEnd, ToolCallStart
from jaato.protocol.frames import Settled

NUMBERS = st.integers(0, 2)
TASKS = st.sampled_from(
    ["write", "two", "ask", "delegate write", "delegate ask", "delegate delegate write", "background write"]
)
SPINS = st.integers(0, 40)


class Questions(RuleBasedStateMachine):
    """A server led anywhere by its clients and by its deaths."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="jaato-model-"))
        self.runner = asyncio.Runner()
        self.said = 0
        self.settled: dict[str, Command] = {}

    def do(self, *work: Coroutine[Any, Any, Any]) -> None:
        """Do it, and wait until nothing more comes of it."""

        async def all_of_it() -> None:
            for one in work:
                await one
            await self.world.settle()

        self.runner.run(all_of_it())

    @initialize(timeout_s=st.sampled_from([0.0, 0.0, 0.05]))
    def begin(self, timeout_s: float) -> None:
        """A server, and a session that somebody has begun."""
        self.world = World(self.home, timeout_s)
        self.do(self.world.start(), self.world.attach(0, "owner"))

    @rule(number=NUMBERS, role=st.sampled_from(["owner", "owner", "approver", "viewer"]))
    def attach(self, number: int, role: str) -> None:
        """Somebody comes."""
        self.do(self.world.attach(number, role))

    @rule(number=NUMBERS)
    def detach(self, number: int) -> None:
        """Somebody leaves."""
        self.do(self.world.detach(number))

    @rule(number=NUMBERS, answers=st.booleans())
    def change(self, number: int, answers: bool) -> None:
        """Somebody answers from now on, or no longer."""
        if viewer := self.world.clients.get(number):
            self.do(viewer.ask(ClientConfig(answers=answers)))

    @rule(task=TASKS)
    def say(self, task: str) -> None:
        """Somebody wants something."""
        self.do(self.world.say(self._text(task)))

    def _text(self, task: str) -> str:
        self.said += 1
        return task if task.endswith("ask") else f"{task} f{self.said}"

    def _answers(self, word: str) -> list[tuple[Viewer, Command]]:
        """An answer of every client to the first question it sees."""
        made: list[tuple[Viewer, Command]] = []
        for viewer in self.world.clients.values():
            for asked in list(viewer.state.questions.values())[:1]:
                if isinstance(asked, PermissionRequested):
                    one: Command = PermissionResponse(
                        session_id=self.world.session_id,
                        question_id=asked.question_id,
                        answer=word,
                        digest=asked.digest,
                    )
                else:
                    one = ClarificationResponse(
                        session_id=self.world.session_id, question_id=asked.question_id, answers=["this"]
                    )
                made.append((viewer, one))
                self.settled[asked.question_id] = one
        return made

    async def _answer_all(self, word: str) -> None:
        answers = self._answers(word)
        replies = await asyncio.gather(*[viewer.ask(command) for viewer, command in answers])
        by_question: dict[str, int] = {}
        for (_, command), reply in zip(answers, replies, strict=True):
            counted = isinstance(reply, Settled) and reply.accepted
            question_id = getattr(command, "question_id", "")
            by_question[question_id] = by_question.get(question_id, 0) + counted
        assert all(count <= 1 for count in by_question.values()), "two answers counted"

    @rule(word=st.sampled_from(["y", "y", "n", "t", "perhaps"]))
    def answer(self, word: str) -> None:
        """Everybody answers at once; at most one of them counts."""
        self.do(self._answer_all(word))

    async def _late(self) -> None:
        for viewer in list(self.world.clients.values()):
            for question_id, command in list(self.settled.items())[-3:]:
                if question_id not in viewer.state.questions:
                    reply = await viewer.ask(command)
                    assert not (isinstance(reply, Settled) and reply.accepted), "a late answer counted"

    @rule()
    def answer_late(self) -> None:
        """Answers to what is settled count for nothing."""
        self.do(self._late())

    @rule(number=NUMBERS)
    def stop(self, number: int) -> None:
        """Somebody stops everything."""
        if viewer := self.world.clients.get(number):
            self.do(viewer.ask(SessionStop(session_id=self.world.session_id)))

    @rule(number=NUMBERS)
    def send_pending(self, number: int) -> None:
        """Somebody goes on with what was cut off."""
        if viewer := self.world.clients.get(number):
            self.do(viewer.ask(TurnContinue(session_id=self.world.session_id)))

    @rule(gently=st.booleans())
    def restart(self, gently: bool) -> None:
        """The server ends while all is quiet, and begins again."""
        self.do(self.world.end() if gently else self.world.die(), self.world.start())

    async def _in_the_middle(self, spins: int, *, gently: bool, task: str) -> None:
        work = self.world.say(self._text(task)) if task else self._answer_all("y")
        under_way = asyncio.create_task(work)
        for _ in range(spins):
            await asyncio.sleep(0)
        await (self.world.end() if gently else self.world.die())
        under_way.cancel()
        await asyncio.wait([under_way])
        await self.world.start()

    @rule(spins=SPINS, gently=st.booleans(), task=st.one_of(st.just(""), TASKS))
    def cut_off(self, spins: int, gently: bool, task: str) -> None:
        """The server ends while it takes a message or an answer, and begins again."""
        self.do(self._in_the_middle(spins, gently=gently, task=task))

    @precondition(lambda self: not self.world.at_work())
    @rule()
    def rest(self) -> None:
        """A session that does nothing is put down."""
        self.do(self.world.hub.evict(self.world.session_id))

    @invariant()
    def holds(self) -> None:
        """Calls wait on what everybody sees."""
        if hasattr(self, "world"):
            self.world.check()

    async def _finish(self) -> None:
        """Whoever is left answers everything: then nothing is open, and every call has had its one result."""
        world = self.world
        owner = await world.attach(0, "owner")
        for _ in range(50):
            await world.settle()
            if owner.state.questions:
                await self._answer_all("y")
            elif not isinstance(await owner.ask(TurnContinue(session_id=world.session_id)), Exception):
                continue
            elif not world.at_work():
                break
        world.check()
        assert not owner.state.questions
        assert owner.state.open_turn is None
        assert not any(agent.working for agent in owner.state.agents.values())
        log = world.log()
        ended = {event.call_id for event in log if isinstance(event, ToolCallEnd)}
        assert {event.call_id for event in log if isinstance(event, ToolCallStart)} <= ended
        assert all(event.by for event in log if isinstance(event, PermissionResolved) and event.answer == "y")
        await world.end()

    def teardown(self) -> None:
        """All ends well, and nothing is left behind."""
        try:
            if hasattr(self, "world"):
                self.runner.run(self._finish())
        finally:
            self.runner.close()
            shutil.rmtree(self.home)


TestQuestions = Questions.TestCase
TestQuestions.settings = settings(
    max_examples=12, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
