"""Whoever answers or listens to a session, wrongly or no longer: nothing is left waiting, nothing hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import anyio
from tests.kit import call, results, say, session

from jaato.abc.asker import Answer
from jaato.protocol.events import Event, MessageUser, PermissionRequested
from jaato.runtime.embedding.handlers import answer_questions
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import tool

ASKING = Policy.of({})


@tool(core=True, access="execute")
async def act() -> str:
    """Something one must ask for."""
    return "acted"


def test_an_answer_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    """A clarification's answers do not answer a permission question; the right answer still can."""

    async def main() -> None:
        async with session(tmp_path, [call("act"), say("done")], [act], policy=ASKING) as live:
            taken: list[bool] = []

            def listen(event: Event) -> None:
                if isinstance(event, PermissionRequested):
                    taken.append(live.questions.respond(event.question_id, ["yes"]))
                    taken.append(live.questions.respond(event.question_id, Answer(answer="y")))

            live.questions.add_responder()
            live.journal.bus.listen(listen)
            await live.post("go")
            assert taken == [False, True]
            assert results(live)[0].ok

    anyio.run(main)


def test_a_cancelled_permission_function_leaves_no_question_waiting(tmp_path: Path) -> None:
    """When the embedding program's function is cancelled, the question is answered no."""

    async def cancelled(_event: PermissionRequested) -> str:
        raise asyncio.CancelledError

    async def main() -> None:
        async with session(tmp_path, [call("act"), say("done")], [act], policy=ASKING) as live:
            answer_questions(live, cancelled)
            with anyio.fail_after(60):
                await live.post("go")
            assert not results(live)[0].ok

    anyio.run(main)


def test_a_listener_that_leaves_hides_nothing_from_the_others(tmp_path: Path) -> None:
    """A listener may stop listening while it hears an event; the next one hears that event too."""

    async def main() -> None:
        heard: list[Event] = []
        async with session(tmp_path, [say("done")]) as live:
            silence: list[Callable[[], None]] = []
            silence.append(live.journal.bus.listen(lambda _event: silence[0]()))
            live.journal.bus.listen(heard.append)
            await live.post("go")
            assert isinstance(heard[0], MessageUser)

    anyio.run(main)
