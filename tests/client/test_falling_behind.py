"""Clients that fall behind, or come back late: no entry of the conversation is lost, however much has happened meanwhile."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.client.breaking import Breaking
from tests.kit import say
from tests.server.serving import Served, served

from jaato.client.blocking import Client
from jaato.client.connection import connect
from jaato.client.session import RemoteSession
from jaato.client.state import WINDOW
from jaato.protocol.commands import MessageSend, SessionAttach
from jaato.protocol.events import Event, TurnCompleted
from jaato.protocol.events.state import Entry
from jaato.providers.scripted import ScriptedCall, Step

ENTRIES = pytest.mark.spec("C8", "Server and events", "C8.events.2")
REPLIES = 150
LAST = "The end." + " and more" * 50_000


def looks(count: int) -> list[Step]:
    """Replies without text, each with six calls: seven entries."""
    return [
        Step(calls=[ScriptedCall("list_tools", {"limit": 6 * reply + number}) for number in range(6)])
        for reply in range(count)
    ]


def stored_entries(server: Served, session_id: str) -> list[int]:
    """The numbers of all entries of the log."""
    return [one.seq for one in server.hub.store.read(session_id) if isinstance(one, Entry)]


async def wait_for_turn(server: Served, session: RemoteSession) -> None:
    """Wait until a turn has ended at the server."""
    with anyio.fail_after(120):
        while server.hub.rooms[session.id].state.turns < 1:
            await anyio.sleep(0.02)


@ENTRIES
def test_the_last_words_of_a_turn_that_was_missed(tmp_path: Path) -> None:
    """A client that is away from the middle of a turn to the middle of the next returns the last words of its own turn, which
    are older than the entries that a state has."""
    words = "Here is the answer."
    script = [
        Step(text=words, calls=[ScriptedCall("list_tools", {})]),
        *looks(REPLIES),
        Step(),
        say("Another."),
    ]

    async def main() -> None:
        async with (
            served(tmp_path, script) as server,
            Breaking(server.path, tmp_path / "breaking") as way,
            connect(way.path, name="one") as one,
        ):
            session = await one.create(tmp_path / "work")
            replies: list[str] = []

            async def run() -> None:
                replies.append(await session.run("go"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                while not session.state.entries:
                    await anyio.sleep(0.001)
                way.close()
                await wait_for_turn(server, session)
                assert session.state.turns == 0
                way.open()
            assert session.state.earlier > WINDOW
            assert replies == [words]

    anyio.run(main)


@ENTRIES
def test_a_reader_that_fell_behind_gets_every_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reads nothing while 1,000 entries and more events than are kept for it arrive gets each entry once, in order."""
    script = [*looks(REPLIES), say(LAST)]
    monkeypatch.setattr("jaato.client.session.BACKLOG", 500)

    async def main() -> None:
        async with served(tmp_path, script) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")
            with session.events() as events:
                await session.send("go")
                while session.state.turns < 1:
                    await anyio.sleep(0.05)
                assert events.lost
                seen: list[Event] = []
                async for event in events:
                    seen.append(event)
                    if isinstance(event, TurnCompleted):
                        break
            assert [one.seq for one in seen if isinstance(one, Entry)] == stored_entries(server, session.id)

    anyio.run(main)


@ENTRIES
def test_a_client_without_a_loop_that_fell_behind_gets_every_entry(tmp_path: Path) -> None:
    """Also where the server sends a snapshot in place of what it does not keep."""
    script = [*looks(REPLIES), say(LAST, chunks=2_000)]

    async def main() -> None:
        async with served(tmp_path, script) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")

            def read() -> list[int]:
                with Client(server.path) as client:
                    client.ask(SessionAttach(session_id=session.id))
                    events = client.events(timeout_s=30)
                    next(events)
                    client.ask(MessageSend(session_id=session.id, text="go"))
                    anyio.from_thread.run(wait_for_turn, server, session)
                    seen: list[int] = []
                    while session_seq(client, session.id) > max(seen, default=0):
                        event = next(events)
                        if isinstance(event, Entry):
                            seen.append(event.seq)
                    assert any(state.earlier for state in client.states.values())
                    return seen

            assert await anyio.to_thread.run_sync(read) == stored_entries(server, session.id)

    anyio.run(main)


def session_seq(client: Client, session_id: str) -> int:
    """The last entry of a state; a later one while its turn runs."""
    state = client.states[session_id]
    return state.entries[-1].seq if state.entries and state.turns else 1 << 62
