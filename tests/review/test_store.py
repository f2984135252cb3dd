"""A store that fails or has lost something: the history stays valid and the session goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, provider_of, recorded, reopened, say, session
from tests.review.pairs import assert_paired

from jaato.errors import StoreError
from jaato.protocol.events import ClarificationResolved
from jaato.tools.tool import tool


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
