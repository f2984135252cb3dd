"""What is wrong with one session is not the end of the others, and a figure means what it says."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.server.serving import served
from tests.server.test_resting import begun, until

from jaato.client.websocket import TEXT, frame
from jaato.protocol.events import SystemMessage
from jaato.providers.scripted import Step
from jaato.server.http.websocket import FramedSocket
from jaato.server.metrics import Metrics
from jaato.server.sessions import command_handlers as carry


async def bounded(main: Callable[[], Awaitable[None]]) -> None:
    """Run it, and not for ever."""
    with anyio.fail_after(60):
        await main()


def test_a_store_that_cannot_be_read_does_not_end_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that is watched at rest is read again and again; when that fails it is said once, and the server serves on."""

    async def main() -> None:
        async with served(tmp_path, [Step(text="Yes.")]) as server, server.client() as client:
            session_id = await begun(client, tmp_path, attach=False)
            await server.hub.evict(session_id)
            await client.ask("session.attach", session_id=session_id)
            with closing(sqlite3.connect(tmp_path / "state/jaato.db")) as other:
                (name,) = next(other.execute("SELECT name FROM sqlite_master WHERE name = 'session'"))
                other.execute(f"ALTER TABLE {name} RENAME TO elsewhere")
                other.commit()
                await until(lambda: "cannot be followed" in caplog.text)
                await anyio.sleep(0.5)
                other.execute(f"ALTER TABLE elsewhere RENAME TO {name}")
                other.commit()
            assert (await client.ask("session.list")).error is None
        assert caplog.text.count("cannot be followed") == 1

    with caplog.at_level(logging.WARNING):
        anyio.run(bounded, main)


def test_who_could_not_remove_a_session_watches_it_still(tmp_path: Path) -> None:
    """A session whose log cannot be removed stays; who has tried goes on to watch it, and leaves with his connection."""

    async def main() -> None:
        async with served(tmp_path, [Step(text="Yes.")]) as server:
            async with server.client("one") as one:
                session_id = await begun(one, tmp_path)
                await server.hub.evict(session_id)
                with closing(sqlite3.connect(tmp_path / "state/jaato.db")) as other:
                    other.execute(
                        "CREATE TRIGGER held BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'held'); END"
                    )
                reply = await one.ask("session.delete", session_id=session_id)
                assert reply.error is not None
                assert reply.error.code != "internal"
                assert server.hub.rooms[session_id].is_watched
            rooms = server.hub.rooms  # one that is not watched may be gone
            await until(lambda: session_id not in rooms or not rooms[session_id].is_watched)

    anyio.run(bounded, main)


def test_watchers_hear_that_their_session_was_removed(tmp_path: Path) -> None:
    """Another client's removal is told to who watches; the count of what has happened never goes back."""

    async def main() -> None:
        async with (
            served(tmp_path, [Step(text="Yes.")]) as server,
            server.client() as one,
            server.client() as two,
        ):
            session_id = await begun(one, tmp_path)
            await two.ask("session.attach", session_id=session_id)
            while session_id not in two.states:
                await two.next()
            before = server.hub.events
            assert (await one.ask("session.delete", session_id=session_id)).error is None
            notice = await two.until(SystemMessage)
            assert "removed" in notice.text
            assert notice.is_deleted
            assert server.hub.events >= before > 0
            text = Metrics(since=time.monotonic() - 12_345_678).render(server.hub)
            assert "jaato_uptime_seconds 12345678." in text
            assert f"jaato_events_total {server.hub.events}\n" in text

    anyio.run(bounded, main)


def test_one_connection_watches_so_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are refused as `overloaded`, which says what helps, until some are left; one that is watched is attached to anew."""
    monkeypatch.setattr(carry, "MOST_WATCHED", 2)

    async def main() -> None:
        async with served(tmp_path, []) as server, server.client() as client:
            ids = [await begun(client, tmp_path, attach=False) for _ in range(3)]
            assert (await client.ask("session.attach", session_id=ids[0])).error is None
            assert (await client.ask("session.attach", session_id=ids[1])).error is None
            refused = (await client.ask("session.attach", session_id=ids[2])).error
            assert refused is not None
            assert (refused.code, refused.retryable) == ("overloaded", True)
            assert (await client.ask("session.attach", session_id=ids[0], after_seq=1)).error is None
            assert (await client.ask("session.detach", session_id=ids[0])).error is None
            assert (await client.ask("session.attach", session_id=ids[2])).error is None

    anyio.run(bounded, main)


def test_a_message_that_comes_slowly_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a ping may follow a long message: while data comes, the connection stays; without, it is closed."""
    made: list[FramedSocket] = []
    connect = FramedSocket.connection_made

    def connection_made(self: FramedSocket, transport: asyncio.BaseTransport) -> None:
        made.append(self)
        connect(self, transport)

    monkeypatch.setattr(FramedSocket, "connection_made", connection_made)
    command = frame(TEXT, b'{"type":"client.config","id":"1"' + b" " * 100_000 + b"}")

    async def main() -> None:
        async with served(tmp_path, []) as server, server.client() as client:
            (socket,) = made
            client.ws.transport.pause_reading()
            socket.send_keepalive_ping()
            client.ws.transport.write(command[:50_000])
            await until(lambda: len(socket.conn.reader.buffer) > 40_000)
            socket.keepalive_timeout()
            assert not socket.transport.is_closing()
            client.ws.transport.write(command[50_000:])
            client.ws.transport.resume_reading()
            assert (await client.next()).error is None
            client.ws.transport.pause_reading()
            socket.send_keepalive_ping()
            socket.keepalive_timeout()
            assert socket.transport.is_closing()
            client.ws.transport.resume_reading()

    anyio.run(bounded, main)
