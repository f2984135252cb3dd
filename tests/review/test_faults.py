"""What a hostile tool, listener or moment may do to a session, and what must hold all the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, plan, provider_of, recorded, reopened, results, runtime, say, session

from jaato.abc.asker import Answer
from jaato.errors import JaatoError, StoreError
from jaato.protocol.events import (
    BackgroundUpdated,
    ClarificationResolved,
    Event,
    MessageUser,
    PermissionRequested,
    ToolCallStart,
    ToolOutput,
    TurnCompleted,
)
from jaato.protocol.messages import Message, Text, ToolResult
from jaato.runtime.answers import attend
from jaato.tools.call import CURRENT, Call, Output
from jaato.tools.permissions import Policy
from jaato.tools.tool import tool

ASKING = Policy.of({})


@tool(core=True, access="read", background_after_s=30.0)
async def movable(n: int) -> int:
    """Quick, but allowed to go on in the background."""
    await anyio.sleep(0)
    return n


@tool(core=True, access="read")
async def forever() -> str:
    """Never end."""
    await anyio.sleep_forever()
    return "never"


@tool(core=True, access="execute")
async def act() -> str:
    """Something one must ask for."""
    return "acted"


class Broken:
    """Nothing about it can be shown."""

    def __repr__(self) -> str:
        raise ValueError("no text")


class BrokenDict(dict[str, Any]):
    """It cannot even be walked through."""

    def items(self) -> Any:
        """Refuse."""
        raise ValueError("no items")


def knot() -> list[Any]:
    """A list that contains itself twice: every way of walking through it doubles at each level."""
    tied: list[Any] = []
    tied += [tied, tied]
    return tied


def tower() -> list[Any]:
    """Small in memory, ten to the tenth when written out."""
    value: list[Any] = [0]
    for _ in range(10):
        value = [value] * 10
    return value


def test_eight_first_background_capable_calls_all_run(tmp_path: Path) -> None:
    """Calls that may move to the background can be the very first, and all at once."""

    async def main() -> None:
        script = [calls(*[("movable", {"n": n}) for n in range(8)]), say("done")]
        async with session(tmp_path, script, [movable]) as live:
            await live.post("go")
            assert [result.structured for result in results(live)] == list(range(8))

    anyio.run(main)


@pytest.mark.parametrize(
    "fault", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, asyncio.CancelledError]
)
@pytest.mark.parametrize("blocking", [False, True])
def test_whatever_a_tool_raises_is_its_own_failure(
    tmp_path: Path, fault: type[BaseException], blocking: bool
) -> None:
    """An exception that would end a program or a task ends only the call of the tool that raised it."""

    @tool(core=True, access="read")
    async def soon() -> str:
        """Fail on the loop."""
        raise fault

    @tool(core=True, access="read")
    def inside() -> str:
        """Fail in a thread."""
        raise fault

    async def main() -> None:
        made = inside if blocking else soon
        async with session(tmp_path, [call(made.__name__), say("done")], [made]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert not results(live)[0].ok
            problem = results(live)[0].error
            assert problem is not None
            assert fault.__name__ in problem.message

    anyio.run(main)


@pytest.mark.parametrize(
    "value",
    [{"a": Broken()}, BrokenDict(a=1), Output(text=5), ({"a": 1}, {"continuation_id": object()})],  # type: ignore[arg-type]
    ids=["broken repr", "broken dict", "wrong types", "wrong metadata"],
)
def test_a_value_that_cannot_be_written_ends_no_turn(tmp_path: Path, value: Any) -> None:
    """Whatever a tool returns, the call gets a durable result and the turn goes on."""

    @tool(core=True, access="read")
    async def odd() -> Any:
        """Return it."""
        return value

    async def main() -> None:
        async with session(tmp_path, [call("odd"), say("done")], [odd]) as live:
            turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "stop"
            assert len(results(live)) == 1

    anyio.run(main)


@pytest.mark.parametrize("make", [knot, tower])
def test_a_value_without_end_is_cut_in_bounded_work(tmp_path: Path, make: Callable[[], Any]) -> None:
    """A value that contains itself, or one part a billion times, is shown as far as it goes."""

    @tool(core=True, access="read")
    async def endless() -> Any:
        """Return it."""
        return make()

    async def main() -> None:
        async with session(tmp_path, [call("endless"), say("done")], [endless]) as live:
            await live.post("go")
            assert results(live)[0].ok
            (shown,) = results(live)[0].content
            assert isinstance(shown, Text)
            assert len(shown.text) < 40_000

    anyio.run(main)


def test_an_error_of_a_million_characters_is_cut_and_kept(tmp_path: Path) -> None:
    """A long failure reaches the model as head and tail, with a handle to all of it."""

    @tool(core=True, access="read")
    async def shout() -> str:
        """Fail loudly."""
        raise ValueError("x" * 1_000_000)

    async def main() -> None:
        async with session(tmp_path, [call("shout"), say("done")], [shout]) as live:
            await live.post("go")
            problem = results(live)[0].error
            assert problem is not None
            assert len(problem.message) < 31_000
            assert 'readFile(path="result:' in problem.message
            assert len(problem.traceback or "") <= 30_000

    anyio.run(main)


def test_what_a_tool_does_to_its_arguments_stays_with_it(tmp_path: Path) -> None:
    """History and events show the arguments that were asked for, whatever the tool makes of its own."""

    @tool(core=True, access="read")
    async def spoil(d: dict[str, Any], *, call: Call) -> str:
        """Change everything."""
        d["evil"] = call.arguments["more"] = call.arguments["d"]["deep"] = True
        return "ok"

    async def main() -> None:
        events: list[Event] = []
        async with session(tmp_path, [call("spoil", d={"x": 1}), say("done")], [spoil]) as live:
            live.journal.bus.listen(events.append)
            await live.post("go")
            assert live.state.messages[1].function_calls[0].arguments == {"d": {"x": 1}}
        started = [event for event in events if isinstance(event, ToolCallStart)]
        assert started[0].arguments == {"d": {"x": 1}}

    anyio.run(main)


def test_output_comes_before_the_result_and_never_after_it(tmp_path: Path) -> None:
    """A call's output precedes its end; what is said later, from any thread, is not shown, nor does the call stay
    the current one."""

    async def main() -> None:
        kept: list[Call] = []
        events: list[Event] = []

        @tool(core=True, access="read")
        async def talk(*, call: Call) -> str:
            """Say something."""
            call.output("hello")
            kept.append(call)
            return "ok"

        async with session(tmp_path, [call("talk"), say("done")], [talk]) as live:
            live.journal.bus.listen(events.append)
            await live.post("go")
            names = [type(event).__name__ for event in events]
            assert names.index("ToolOutput") < names.index("ToolCallEnd")
            threads = [threading.Thread(target=kept[0].output, args=("late",)) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            await anyio.sleep(0)
            assert sum(isinstance(event, ToolOutput) for event in events) == 1
            assert CURRENT.get() is None

    anyio.run(main)


def test_a_session_that_closes_waits_for_the_end_of_its_turn(tmp_path: Path) -> None:
    """Closing under a running turn stops it, the turn's end is in the log, and nothing is seen afterwards."""

    async def main() -> None:
        made = runtime(tmp_path, [forever])
        live = made.create(plan(tmp_path, [call("forever")]))
        await live.__aenter__()
        events: list[Event] = []
        live.journal.bus.listen(events.append)
        running = asyncio.ensure_future(live.post("go"))
        while not live.state.started:
            await anyio.sleep(0)
        await live.__aexit__(None, None, None)
        assert isinstance(events[-2], TurnCompleted)
        count = len(events)
        made.close()
        turn = await running
        assert turn is not None
        assert turn.reason == "cancelled"
        assert len(events) == count
        with pytest.raises(JaatoError, match="closed"):
            await live.post("more")
        with pytest.raises(JaatoError, match="closed"):
            await live.background(lambda: anyio.sleep(0))

    anyio.run(main)


def test_a_call_that_closes_its_own_session_does_not_wait_for_itself(tmp_path: Path) -> None:
    """A tool may close the session it runs in."""

    @tool(core=True, access="read")
    async def leave(*, call: Call) -> str:
        """Close."""
        await call.services["session"].__aexit__(None, None, None)
        return "left"

    async def main() -> None:
        async with session(tmp_path, [call("leave"), say("never")], [leave]) as live:
            with anyio.fail_after(5):
                turn = await live.post("go")
            assert turn is not None
            assert turn.reason == "cancelled"

    anyio.run(main)


def test_a_closed_session_s_tasks_are_cancelled_and_known_when_it_opens_again(tmp_path: Path) -> None:
    """A task that a close has stopped is recorded as cancelled, and the reopened session still shows it."""

    @tool(core=True, access="read", background_after_s=0.0)
    async def long() -> str:
        """Go on and on."""
        await anyio.sleep_forever()
        return "never"

    async def main() -> None:
        async with session(tmp_path, [call("long"), say("done")], [long]) as live:
            await live.post("go")
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, [], [long]) as again:
            updates = [event for event in recorded(again) if isinstance(event, BackgroundUpdated)]
            assert [event.status for event in updates] == ["running", "cancelled"]
            (task,) = again.tasks.all()
            assert task.status.value == "cancelled"
            assert task.done.is_set()

    anyio.run(main)


def test_a_tool_that_never_returns_does_not_keep_the_program_alive(tmp_path: Path) -> None:
    """After its timeout a blocking tool is left to itself; further calls run, and the program can end."""
    code = f"""
import threading, anyio
from pathlib import Path
from tests.kit import calls, results, say, session
from jaato.tools.tool import tool

@tool(core=True, access="read", timeout_s=0.01)
def never() -> str:
    "Wait for what does not come."
    threading.Event().wait()
    return ""

async def main() -> None:
    async with session(Path({str(tmp_path)!r}), [calls(*[("never", {{}})] * 10), say("done")], [never]) as live:
        await live.post("go")
        print([result.error.code for result in results(live)].count("tool_timeout"))

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "10"), done.stderr


def test_the_threads_of_a_session_end_with_it(tmp_path: Path) -> None:
    """Worker threads are reused while a session lives and are gone soon after."""

    @tool(core=True, access="read")
    def work() -> int:
        """Say which thread this is."""
        return threading.get_ident()

    async def main() -> None:
        before = threading.active_count()
        async with session(tmp_path, [*[call("work")] * 20, say("done")], [work]) as live:
            await live.post("go")
            assert len({result.structured for result in results(live)}) == 1
        while threading.active_count() > before:
            await anyio.sleep(0)

    anyio.run(main)


@pytest.mark.parametrize("fails_at", range(1, 8))
def test_a_store_that_fails_for_a_while_loses_nothing(tmp_path: Path, fails_at: int) -> None:
    """When the disk is full for some commits the turn raises one `StoreError`; once there is room the same session
    goes on with a valid history, and so does the reopened one."""

    @tool(core=True, access="read")
    async def echo(n: int) -> int:
        """Say it again."""
        return n

    async def main() -> None:
        script = [calls(("echo", {"n": 1}), ("echo", {"n": 2})), *[say("said")] * 4]
        async with session(tmp_path, script, [echo]) as live:
            store, done = live.journal.store, 0
            append = store.append

            def failing(events: Any) -> None:
                nonlocal done
                done += 1
                if fails_at <= done < fails_at + 4:
                    raise StoreError("No space left on device.")
                append(events)

            store.append = failing  # type: ignore[method-assign]  # a disk that is full for a while
            try:
                await live.post("go")
            except StoreError:
                pass
            store.append = append  # type: ignore[method-assign]
            turn = await live.post("again")
            assert turn is not None
            assert turn.reason == "stop"
            assert_paired(live.state.messages)
            assert [m.text for m in live.state.messages if m.role == "user"][-1] == "again"
            session_id, seen = live.state.session_id, live.state.messages
        async with reopened(tmp_path, session_id, [], [echo]) as again:
            assert again.state.messages == seen
            assert [event.seq for event in recorded(again)] == list(range(1, again.state.seq + 1))

    anyio.run(main)


def assert_paired(messages: list[Message]) -> None:
    """Every call is followed by exactly its results."""
    waiting: list[str] = []
    for message in messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        assert answered == waiting
        waiting = [part.call_id for part in message.function_calls]
    assert waiting == []


@pytest.mark.parametrize("damaged", range(2, 14))
def test_a_log_with_an_unreadable_record_opens_with_a_valid_history(tmp_path: Path, damaged: int) -> None:
    """Whichever record is lost, the session goes on; a call whose result is lost is answered as such."""
    import sqlite3

    @tool(core=True, access="read")
    async def echo(n: int) -> int:
        """Say it again."""
        return n

    async def main() -> None:
        script = [calls(("echo", {"n": 1}), ("echo", {"n": 2})), call("echo", n=3), say("done")]
        async with session(tmp_path, script, [echo]) as live:
            await live.post("go")
            session_id = live.state.session_id
        with sqlite3.connect(tmp_path / "state" / "jaato.db") as database:
            column = database.execute("PRAGMA table_info(event)").fetchall()[-1][1]
            (position,) = database.execute(
                "SELECT position FROM event ORDER BY position LIMIT 1 OFFSET ?", (damaged - 1,)
            ).fetchone()
            database.execute(f"UPDATE event SET {column} = x'7b' WHERE position = ?", (position,))
        database.close()
        async with reopened(tmp_path, session_id, [call("echo", n=9), say("end")], [echo]) as again:
            provider_of(again)._next = 0
            assert len(again.journal.damaged) == 1
            turn = await again.post("more")
            assert turn is not None
            assert turn.reason == "stop"
            assert_paired(again.state.messages)
            assert again.state.agent_id
            assert again.state.model

    anyio.run(main)


def test_open_clarifications_and_passing_grants_end_with_the_process(tmp_path: Path) -> None:
    """What the process before left open is closed when the session opens again: nobody waits for it any more."""
    from jaato.protocol.events import ClarificationQuestion, PermissionGranted
    from jaato.protocol.specs import Grant

    async def main() -> None:
        async with session(tmp_path, []) as live:
            head = live.journal.head
            asked = [{"question": "which?"}]
            live.journal.record(
                ClarificationQuestion(**head(), question_id="q1", call_id="c1", context="", questions=asked)
            )
            grant = Grant(id="g1", effect="allow", tool="run", scope="turn", workspace="/", created_at="")
            live.journal.record(PermissionGranted(**head(), grant=grant))
            session_id = live.state.session_id
        async with reopened(tmp_path, session_id, []) as again:
            assert not again.state.questions
            assert not again.state.grants
            assert any(isinstance(event, ClarificationResolved) for event in recorded(again))

    anyio.run(main)


def test_an_answer_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    """A clarification's answers do not answer a permission question; the right answer still can."""

    async def main() -> None:
        async with session(tmp_path, [call("act"), say("done")], [act], policy=ASKING) as live:
            taken: list[bool] = []

            def listen(event: Event) -> None:
                if isinstance(event, PermissionRequested):
                    taken.append(live.desk.answer(event.question_id, ["yes"]))
                    taken.append(live.desk.answer(event.question_id, Answer(answer="y")))

            live.desk.attend()
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
            attend(live, cancelled)
            with anyio.fail_after(5):
                await live.post("go")
            assert not results(live)[0].ok

    anyio.run(main)


def test_a_message_after_a_stop_opens_a_turn_of_its_own(tmp_path: Path) -> None:
    """What the user says after a stop does not wait in the inbox of the turn that ends."""

    async def main() -> None:
        async with session(tmp_path, [call("forever"), say("heard")], [forever]) as live:
            running = asyncio.ensure_future(live.post("go"))
            while not live.state.started:
                await anyio.sleep(0)
            live.stop()
            turn = await live.post("rather this")
            assert turn is not None
            assert turn.reason == "stop"
            assert (await running).reason == "cancelled"  # type: ignore[union-attr]
            assert live.state.messages[-1].text == "heard"

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
