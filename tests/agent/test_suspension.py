"""What an agent left when its process ended: nothing begins twice, an answer is used once, a deadline counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, plan, recorded, results, runtime, say

from jaato.abc.asker import Answer, Clarification
from jaato.agent.journal import Journal
from jaato.agent.session import Session
from jaato.agent.state import State
from jaato.errors import SessionBusy, StoreError
from jaato.protocol.events import (
    ClarificationQuestion,
    ClarificationResolved,
    Event,
    PermissionRequested,
    PermissionResolved,
    ToolCallEnd,
)
from jaato.storage.sqlite import LOOKS_EVERY_S, SqliteStore
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Policy
from jaato.tools.tool import tool

ASK = Policy.of({"defaultPolicy": "ask"})
SCRIPT = [call("change"), say("done")]


def effects(done: list[str]) -> Callable[..., Any]:
    """A tool that changes something."""

    @tool(core=True, access="write")
    async def change() -> str:
        """Change something."""
        done.append("changed")
        return "changed"

    return change


@asynccontextmanager
async def opened(
    path: Path, script: Sequence[Any], made_tool: Any, again: str = "", **more: Any
) -> AsyncIterator[Session]:
    """A session as a server has it, new or of an earlier process."""
    made = runtime(path, [made_tool])
    wanted = plan(path, script, **{"policy": ASK, "keep_interrupted_turns": True, **more})
    try:
        if again:
            journal = Journal(made.store, State())
            made.store.hold(again)
            journal.load(again)
            live = made.open(journal, wanted)
        else:
            live = made.create(wanted)
        async with live:
            live.questions.add_responder(patient=True)
            yield live
    finally:
        made.close()


async def left(path: Path, made_tool: Any, when: Callable[[Session, Event], bool], **more: Any) -> str:
    """The id of a session whose process ended right after an event."""
    over = anyio.Event()

    async with opened(path, SCRIPT, made_tool, **more) as live, anyio.create_task_group() as group:

        def listen(event: Event) -> None:
            if when(live, event):
                live.suspend()
                over.set()

        live.journal.bus.listen(listen)
        group.start_soon(live.post, "go")
        await over.wait()
        for _ in range(30):
            await anyio.sleep(0)
        group.cancel_scope.cancel()
    return live.state.session_id


def answering(word: str) -> Callable[[Session, Event], bool]:
    """Answer the question; its process ends when the answer is in the log."""

    def when(live: Session, event: Event) -> bool:
        if isinstance(event, PermissionRequested):
            live.questions.respond(event.question_id, Answer(answer=word, by="ann"))
        return isinstance(event, PermissionResolved)

    return when


@pytest.mark.parametrize(("word", "times"), [("y", 1), ("n", 0)])
def test_an_answer_that_is_in_the_log_is_used_and_not_asked_for_again(
    tmp_path: Path, word: str, times: int
) -> None:
    """The process ends between the answer and the call: nothing begins in the one that ends, and in the next the call
    goes on with that answer, once."""

    async def main() -> None:
        done: list[str] = []
        session_id = await left(tmp_path, effects(done), answering(word))
        assert done == []
        async with opened(tmp_path, SCRIPT, effects(done), session_id) as live:
            assert live.is_interrupted
            turn = await live.resume()
            assert turn is not None
            assert turn.reason == "stop"
            assert len(done) == times
            assert sum(isinstance(event, PermissionRequested) for event in recorded(live)) == 1

    anyio.run(main)


def test_a_question_that_lasted_past_its_deadline_has_its_default(tmp_path: Path) -> None:
    """Its deadline has passed while no process was there: it is settled when the session is opened, an answer comes too
    late, and the call is denied."""

    async def main() -> None:
        done: list[str] = []
        asked: list[str] = []

        def when(live: Session, event: Event) -> bool:
            if isinstance(event, PermissionRequested):
                asked.append(event.question_id)
            return bool(asked)

        session_id = await left(tmp_path, effects(done), when, question_timeout_s=0.01)
        await anyio.sleep(0.02)
        async with opened(tmp_path, SCRIPT, effects(done), session_id, question_timeout_s=0.01) as live:
            assert not live.state.questions
            assert not live.questions.respond(asked[0], Answer(answer="y"))
            await live.resume()
            assert not results(live)[0].ok
            assert "in time" in str(results(live)[0].error)
            assert done == []
            [end] = [event for event in recorded(live) if isinstance(event, PermissionResolved)]
            assert end.permission.method == "timeout"

    anyio.run(main)


def test_a_process_that_ends_takes_no_answer(tmp_path: Path) -> None:
    """What cannot be written any more does not count: the answer is refused, and the question waits for the next process."""

    async def main() -> None:
        done: list[str] = []
        refused: list[SessionBusy] = []

        def when(live: Session, event: Event) -> bool:
            if not isinstance(event, PermissionRequested):
                return False
            live.suspend()
            with pytest.raises(SessionBusy) as error:
                live.questions.respond(event.question_id, Answer(answer="y"))
            refused.append(error.value)
            return True

        session_id = await left(tmp_path, effects(done), when)
        assert refused
        async with opened(tmp_path, SCRIPT, effects(done), session_id) as live:
            assert len(live.state.questions) == 1
            assert done == []

    anyio.run(main)


def test_a_tool_that_asks_in_its_middle_is_not_begun_again(tmp_path: Path) -> None:
    """What a tool with side effects has asked ends with the process; what came of the call is asked instead, and the tool,
    which had begun, never runs a second time."""

    async def main() -> None:
        done: list[str] = []

        @tool(core=True, access="write")
        async def change(*, call: Call) -> str:
            """Change something, and ask."""
            done.append("changed")
            asked = Clarification(id="q1", call_id=call.id, context="", questions=[{"question": "More?"}])
            return str(await call.services["clarify"](asked))

        allow = Policy.of({"defaultPolicy": "allow"})
        session_id = await left(
            tmp_path, change, lambda _, event: isinstance(event, ClarificationQuestion), policy=allow
        )
        async with opened(tmp_path, SCRIPT, change, session_id, policy=allow) as live:
            [asked] = live.state.questions.values()
            assert isinstance(asked, ClarificationQuestion)
            assert asked.outcome
            assert live.questions.respond(asked.question_id, ["it was not done"], "ann")
            await live.resume(ask_outcomes=True)
            assert done == ["changed"]
            [end] = [event for event in recorded(live) if isinstance(event, ToolCallEnd)]
            assert end.result.error is not None
            assert "it was not done" in end.result.error.message
            told = [event.by for event in recorded(live) if isinstance(event, ClarificationResolved)]
            assert told == ["", "ann"]

    anyio.run(main)


@pytest.mark.parametrize("patient", [True, False])
def test_what_came_of_a_call_is_asked_where_the_store_has_failed(tmp_path: Path, patient: bool) -> None:
    """A call whose end the store has refused is not repeated when the turn goes on in the same process: it is asked what
    came of it, where somebody waits for that, else nobody knows."""
    done: list[str] = []
    stored: list[Path] = []
    live: Session

    @tool(core=True, access="write")
    async def change() -> str:
        """Change something, and lose the store."""
        done.append("changed")
        stored[0].rename(stored[0].with_suffix(".away"))
        await anyio.sleep(LOOKS_EVERY_S)  # a store looks no more often whether it is still there
        return "changed"

    def answer(event: Event) -> None:
        if isinstance(event, ClarificationQuestion):
            assert event.outcome
            question_id = event.question_id
            asyncio.get_running_loop().call_soon(lambda: live.questions.respond(question_id, ["it was done"]))

    async def main() -> None:
        nonlocal live
        async with opened(tmp_path, SCRIPT, change, policy=Policy.of({"defaultPolicy": "allow"})) as live:
            store = live.journal.store
            assert isinstance(store, SqliteStore)
            stored.append(store.path)
            with pytest.raises(StoreError):
                await live.post("go")
            store.path.with_suffix(".away").rename(store.path)
            assert live.is_interrupted
            live.journal.bus.listen(answer)
            ended = await live.resume(ask_outcomes=patient)
            assert ended is not None
            assert ended.reason == "stop"
            assert done == ["changed"]
            problem = results(live)[0].error
            assert problem is not None
            assert ("it was done" in problem.message) == patient
            asked = [event for event in recorded(live) if isinstance(event, ClarificationQuestion)]
            assert len(asked) == patient

    anyio.run(main)
