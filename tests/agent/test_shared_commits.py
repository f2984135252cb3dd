"""One commit shared by the calls that run at once: who gets what becomes of it, and in which order it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent.test_journal import Counting
from tests.kit import plan, runtime, say

from jaato.agent.journal import Journal
from jaato.errors import StoreError
from jaato.protocol.events import Event, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import ToolCall
from jaato.tools.pipeline import run
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import tool

pytestmark = pytest.mark.spec("C8", "Server and events")


@asynccontextmanager
async def journal(path: Path) -> AsyncIterator[tuple[Journal, Counting]]:
    """The journal of a session, and its store, which has counted nothing yet."""
    runner = runtime(path)
    runner.store.close()
    runner.store = store = Counting(path / "state" / "jaato.db")
    async with runner.create(plan(path, [say("done")])) as opened:
        store.commits.clear()
        yield opened.journal, store
        store.fail_at = None
    runner.close()


def start(log: Journal, name: str, **arguments: Any) -> ToolCallStart:
    """The next event of a log."""
    return ToolCallStart(**log.head(), call_id=name, tool="look", arguments=arguments)


async def share(log: Journal, name: str, **arguments: Any) -> None:
    """Share the commit of such an event."""
    await log.share(start(log, name, **arguments))


def stored(log: Journal) -> list[str]:
    """The calls that have a start in the store, in order; the numbers of its events have no gap."""
    events = list(log.store.read(log.state.session_id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.call_id for event in events if isinstance(event, ToolCallStart)]


def test_what_is_shared_at_once_is_one_commit(tmp_path: Path) -> None:
    """Each event is durable before it is published, they are published in their order, and before anybody goes on."""

    async def main() -> None:
        async with journal(tmp_path) as (log, store):
            seen: list[str] = []

            def listen(event: Event) -> None:
                if isinstance(event, ToolCallStart):
                    assert store.last_seq(event.session_id) >= event.seq
                    seen.append(event.call_id)

            async def member(name: str) -> None:
                await share(log, name)
                assert name in log.state.started
                assert len(seen) >= len(names)

            log.bus.listen(listen)
            names = [f"c{number}" for number in range(40)]
            await asyncio.gather(*map(member, names))
            assert store.commits == [["ToolCallStart"] * 40]
            assert seen == stored(log) == names
            await share(log, "later")
            assert stored(log) == [*names, "later"]
            store.commits.clear()
            await asyncio.gather(*[share(log, f"d{number}") for number in range(100)])
            assert [len(commit) for commit in store.commits] == [64, 36]

    anyio.run(main)


@pytest.mark.parametrize("place", [0, 3, 7])
def test_an_event_that_cannot_be_stored_fails_alone(tmp_path: Path, place: int) -> None:
    """The others of its commit are stored, without a gap, and what follows goes on from there."""

    async def main() -> None:
        async with journal(tmp_path) as (log, _store):
            work = [
                share(log, f"c{number}", x=object() if number == place else number) for number in range(8)
            ]
            ended = await asyncio.gather(*work, return_exceptions=True)
            assert [number for number, one in enumerate(ended) if one is not None] == [place]
            assert "cannot be written as JSON" in str(ended[place])
            expected = [f"c{number}" for number in range(8) if number != place]
            assert stored(log) == list(log.state.started) == expected
            log.record(start(log, "later"))
            assert stored(log) == [*expected, "later"]

    anyio.run(main)


def test_an_invalid_event_that_is_recorded_at_once_fails_alone(tmp_path: Path) -> None:
    """What others share is stored all the same, and so it is when a fault of before is raised first."""

    async def main() -> None:
        async with journal(tmp_path) as (log, _store):
            for name, fault in (("first", None), ("second", StoreError("of before"))):
                sharing = asyncio.create_task(share(log, name))
                await asyncio.sleep(0)
                assert log.is_sharing
                log.fault = fault
                with pytest.raises(StoreError, match="written as JSON" if fault is None else "of before"):
                    log.record(start(log, "bad", x=object()))
                await sharing
                assert not log.is_sharing
            log.record(start(log, "third"))
            assert stored(log) == ["first", "second", "third"]

    anyio.run(main)


def test_a_store_that_takes_nothing_fails_every_member(tmp_path: Path) -> None:
    """Each gets the error, the state is as it was, and the next commit has the next numbers."""

    async def main() -> None:
        async with journal(tmp_path) as (log, store):
            store.fail_at = 0
            ended = await asyncio.gather(*[share(log, f"c{n}") for n in range(5)], return_exceptions=True)
            assert [str(one) for one in ended] == ["The disk is full."] * 5
            assert not log.state.started
            store.fail_at = None
            await share(log, "later")
            assert stored(log) == ["later"]

    anyio.run(main)


def test_a_member_that_is_cancelled_is_stored_with_the_others(tmp_path: Path) -> None:
    """What is recorded about the cancellation comes after it; the others do not notice."""

    async def main() -> None:
        async with journal(tmp_path) as (log, store):

            async def cancelled() -> None:
                try:
                    await share(log, "c1")
                except asyncio.CancelledError:
                    assert "c1" in log.state.started
                    log.record(start(log, "after"))
                    raise

            tasks = [asyncio.create_task(one) for one in (share(log, "c0"), cancelled(), share(log, "c2"))]
            await asyncio.sleep(0)
            tasks[1].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one) for one in ended] == [type(None), asyncio.CancelledError, type(None)]
            assert stored(log) == ["c0", "c1", "c2", "after"]
            assert len(store.commits) == 2

    anyio.run(main)


def test_a_closed_member_is_stored(tmp_path: Path) -> None:
    """A coroutine that is thrown away while it waits leaves its event in the log."""

    async def main() -> None:
        async with journal(tmp_path) as (log, _store):
            work = share(log, "c0")
            work.send(None)
            work.close()
            assert stored(log) == ["c0"]

    anyio.run(main)


def test_the_order_is_that_of_the_numbers_whoever_records(tmp_path: Path) -> None:
    """Shared, recorded at once, held and shared again: one log in the order the events were made."""

    async def main() -> None:
        async with journal(tmp_path) as (log, store):
            first = asyncio.create_task(share(log, "shared"))
            await asyncio.sleep(0)
            log.record(start(log, "recorded"))
            assert stored(log) == ["shared", "recorded"]
            second = asyncio.create_task(share(log, "again"))
            await asyncio.sleep(0)
            log.hold(start(log, "held"))
            await share(log, "last")
            assert stored(log) == ["shared", "recorded", "again", "held", "last"]
            await asyncio.gather(first, second)
            assert store.commits == [["ToolCallStart"] * 2, ["ToolCallStart"] * 3]

    anyio.run(main)


def test_what_is_frozen_while_members_wait_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is written after it, and nobody waits forever."""

    async def main() -> None:
        async with journal(tmp_path) as (log, store):
            sharing = asyncio.create_task(share(log, "late"))
            await asyncio.sleep(0)
            log.freeze()
            await sharing
            await share(log, "later")
            assert store.commits == []
            assert stored(log) == []

    anyio.run(main)


def test_a_secret_that_becomes_known_while_members_wait_is_masked(tmp_path: Path) -> None:
    """What is stored and published is redacted by what is known when it is committed."""

    async def main() -> None:
        async with journal(tmp_path) as (log, _store):
            log.secrets = Redactor()
            sharing = asyncio.create_task(share(log, "c0", text="it is tulip-garden-91"))
            await asyncio.sleep(0)
            log.secrets.add("GARDEN", "tulip-garden-91")
            await sharing
            assert "tulip" not in str(list(log.store.read(log.state.session_id)))
            assert "tulip" not in str(log.state.started)

    anyio.run(main)


def test_calls_that_run_at_once_share_their_commits(tmp_path: Path) -> None:
    """Each has its start before its effect and its end after it; one that is cancelled as its start is being committed never
    runs, and its end is in the log."""
    ran: list[str] = []
    logs: list[Journal] = []

    @tool(access="execute")
    async def act(name: str) -> str:
        """Act."""
        assert name in logs[0].state.started
        ran.append(name)
        return name

    runner = runtime(tmp_path, [act])
    runner.store.close()
    runner.store = store = Counting(tmp_path / "state" / "jaato.db")

    async def main() -> None:
        async with runner.create(plan(tmp_path, [say("done")])) as opened:
            log = opened.journal
            logs.append(log)
            store.commits.clear()
            calls = [
                opened.tools.new_call(ToolCall(f"c{n}", "act", {"name": f"c{n}"}), "", "registry")
                for n in range(20)
            ]
            tasks = [asyncio.create_task(run(one, opened.tools)) for one in calls]
            await asyncio.sleep(0)
            tasks[7].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [number for number, one in enumerate(ended) if isinstance(one, BaseException)] == [7]
            assert sorted(ran) == sorted(f"c{n}" for n in range(20) if n != 7)
            assert len(store.commits) < 10
            events = list(log.store.read(log.state.session_id))
            started = [event.call_id for event in events if isinstance(event, ToolCallStart)]
            finished = [event for event in events if isinstance(event, ToolCallEnd)]
            assert sorted(started) == sorted(event.call_id for event in finished)
            problems = [event.call_id for event in finished if event.result.error is not None]
            assert problems == ["c7"]
            assert not log.state.started

    anyio.run(main)
    runner.close()
