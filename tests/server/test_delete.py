"""A large session is removed beside everything else."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import say
from tests.server.serving import served
from tests.server.test_resting import begun
from tests.storage.logs import created, said

from jaato.errors import SessionNotFound

EVENTS = 20_000


def test_others_write_while_a_large_session_is_removed(tmp_path: Path) -> None:
    """Twenty thousand events are removed while another session goes on writing, and the removed one is found by nobody from
    the first moment on."""

    async def main() -> None:
        async with served(tmp_path, [say("one")]) as server, server.client() as client:
            other = await begun(client, tmp_path)
            store, journal = server.hub.store, server.hub.pool.loaded[other].session.journal
            store.create([created("big")])
            for first in range(2, EVENTS, 1_000):
                store.append([said("big", seq, "x" * 500) for seq in range(first, first + 1_000)])
            seen: list[bool] = []

            async def write() -> None:
                while True:
                    journal.record(said(other, journal.head()["seq"]))
                    seen.append(any(row.id == "big" for row in store.sessions()))
                    await anyio.sleep(0)

            async with anyio.create_task_group() as group:
                group.start_soon(write)
                reply = await client.ask("session.delete", session_id="big")
                group.cancel_scope.cancel()
            assert reply.error is None
            assert seen.count(False) > 10
            with pytest.raises(SessionNotFound):
                store.read("big")
            held = [event.seq for event in store.read(other)]
            assert held == list(range(1, journal.state.seq + 1))

    anyio.run(main)
