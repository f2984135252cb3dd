"""A message that is sent again is taken once, whatever became of the server between; and errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.kit import call, say
from tests.server.serving import Raw, served
from tests.server.test_resting import SLOW, begun, fifo, said, until
from tests.server.test_wake import turns

from jaato.client.blocking import Client
from jaato.client.connection import connect
from jaato.errors import JaatoError
from jaato.protocol.events import MessageUser
from jaato.protocol.frames import Reply, Taken


def spoken(client: Raw, session_id: str) -> list[str]:
    """What was said to the agent."""
    entries = client.states[session_id].entries
    return [event.message.text for event in entries if isinstance(event, MessageUser)]


def test_a_message_is_taken_once_also_by_the_next_server(tmp_path: Path) -> None:
    """The same `once` after a restart: it is answered with where the message is, and nothing is said twice."""

    async def main() -> None:
        async with served(tmp_path, [say("one"), say("two")]) as server, server.client() as client:
            session_id = await begun(client, tmp_path)
            first = await client.ask("message.send", text="go", once="w1")
            assert isinstance(first.result, Taken)
        async with served(tmp_path, [say("one"), say("two")]) as server, server.client() as client:
            await client.ask("session.attach", session_id=session_id)
            again = await client.ask("message.send", text="go", once="w1")
            assert again.result == Taken(first.result.seq, again=True)
            await said(client, "more")
            assert spoken(client, session_id) == ["go", "more"]

    anyio.run(main)


def test_a_message_on_its_way_is_not_taken_twice(tmp_path: Path) -> None:
    """Sent again from another connection while a plugin still works on it: both are answered with the one message."""
    gate = fifo(tmp_path)
    plugins = tmp_path / ".config" / "jaato" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "slow.py").write_text(SLOW)

    async def main() -> None:
        async with (
            served(tmp_path, [say("heard")] * 2) as server,
            server.client() as one,
            server.client() as two,
        ):
            session_id = await begun(one, tmp_path)
            replies: list[Reply] = []

            async def send(client: Raw) -> None:
                replies.append(await client.ask("message.send", session_id=session_id, text="go", once="w1"))

            async with anyio.create_task_group() as group:
                group.start_soon(send, one)
                await until(lambda: server.hub.rooms[session_id].preparing)
                group.start_soon(send, two)
                async with server.client() as three:
                    await three.ask("client.config")  # by then the second has come in too
                await anyio.to_thread.run_sync(gate.write_text, "open")
            taken: list[Any] = [reply.result for reply in replies]
            assert sorted(result.again for result in taken) == [False, True]
            assert len({result.seq for result in taken}) == 1
            log = list(server.hub.store.read(session_id))
            assert sum(isinstance(event, MessageUser) for event in log) == 1

    anyio.run(main)


def test_an_ambiguous_beginning_of_an_id_names_the_sessions_it_fits(tmp_path: Path) -> None:
    """Attach and delete refuse what fits two sessions, with their ids; nothing is watched and nothing removed."""

    async def main() -> None:
        async with served(tmp_path, [say("one")]) as server, server.client() as client:
            ids = [await begun(client, tmp_path, attach=False) for _ in range(2)]
            for command in ("session.attach", "session.delete"):
                error = (await client.ask(command, session_id=ids[0][:2])).error
                assert error is not None
                assert error.code == "session_not_found"
                assert "fits 2 sessions" in error.message
                assert all(session_id in error.message for session_id in ids)
            assert {row.id for row in server.hub.store.sessions()} == set(ids)

    anyio.run(main)


def test_a_client_of_another_protocol_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that speaks a newer protocol than the server is refused with both versions and the way out."""
    for module in ("blocking", "connection", "websocket"):
        monkeypatch.setattr(f"jaato.client.{module}.PROTOCOL", 2)
    told: list[str] = []

    def blocking(path: Path) -> None:
        with pytest.raises(JaatoError) as error, Client(path):
            pass
        told.append(str(error.value))

    async def main() -> None:
        async with served(tmp_path, []) as server:
            await anyio.to_thread.run_sync(blocking, server.path)
            with pytest.raises(JaatoError) as error:
                async with connect(server.path):
                    pass
            told.append(str(error.value))

    anyio.run(main)
    for words in told:
        assert "This server speaks protocol 1, this client 2" in words
        assert "jaato serve --stop" in words


def test_a_late_stop_ends_no_other_turn(tmp_path: Path) -> None:
    """A stop that arrives when its turn is over, as after a lost connection, leaves the next one alone; one of it ends it."""
    gate = fifo(tmp_path)

    async def main() -> None:
        async with (
            served(
                tmp_path,
                [say("one"), call("run", command="cat gate"), say("two"), call("run", command="sleep 600")],
            ) as server,
            server.client() as client,
        ):
            session_id = await begun(client, tmp_path, allow=["run(cat *)", "run(sleep *)"])
            await client.ask("message.send", text="first")
            (first,) = await turns(client, session_id, 1)
            await client.ask("message.send", text="second")
            state = server.hub.pool.loaded[session_id].session.state
            await until(lambda: "cat gate" in str(state.started))
            await client.ask("session.stop", turn_id=first.turn_id)
            await anyio.to_thread.run_sync(gate.write_text, "done")
            await turns(client, session_id, 2)
            await client.ask("message.send", text="third")
            await until(lambda: "sleep 600" in str(state.started))
            await client.ask("session.stop", turn_id=state.open_turn)
            ended = await turns(client, session_id, 3)
            assert [one.reason for one in ended] == ["stop", "stop", "cancelled"]

    anyio.run(main)
